#include "data_tools/text/tokenize.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "data/fingerprint.h"
#include "data_tools/text/document_reader.h"
#include "data_tools/text/example.h"
#include "data_tools/text/line_reader.h"
#include "data_tools/text/prompt_template.h"
#include "data_tools/text/record_sink.h"

namespace fathom::data_tools {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;  // of a long document
constexpr std::size_t kBatchBytes = std::size_t{4} << 20;    // of text held at a time
constexpr std::size_t kBatchUnits = 4096;

// What one thread encodes: a JSON line, or a piece of a document.
struct Unit {
  const std::filesystem::path* file = nullptr;
  std::int64_t number = 0;  // of the non-blank line or document, over all inputs
  DocumentPiece piece;

  std::string where() const { return str(file->string(), ":", piece.line); }
};

TextForm form_of(const TokenizeOptions& options) {
  if (options.form != TextForm::automatic) return options.form;
  const auto is_json = [](const std::filesystem::path& path) {
    return path.extension() == ".jsonl" || path.extension() == ".json";
  };
  const auto json = std::count_if(options.inputs.begin(), options.inputs.end(), is_json);
  require(json == 0 || json == std::ssize(options.inputs), ErrorKind::config,
          "inputs are JSON lines and plain text at once; give each form its own token file");
  return json > 0 ? TextForm::jsonl : TextForm::text;
}

void check(const TokenizeOptions& options) {
  const bool first = options.eval_first > 0;
  const bool fraction = options.eval_fraction > 0;
  require(!options.inputs.empty(), ErrorKind::config, "no input file to tokenize");
  require(options.block >= 0 && options.context >= 0 && options.eval_first >= 0, ErrorKind::config,
          "block ", options.block, ", context ", options.context, ", eval_first ",
          options.eval_first, "; none may be negative");
  require(options.eval_fraction >= 0 && options.eval_fraction < 1, ErrorKind::config,
          "eval fraction ", options.eval_fraction, "; at least 0 and below 1 expected");
  require(!(first && fraction), ErrorKind::config, "both the first ", options.eval_first,
          " and a share of ", options.eval_fraction,
          " of the records are to be held out; choose one");
  require((first || fraction) == !options.eval_output.empty(), ErrorKind::config,
          "a held-out part and its output file belong together");
  require(options.output != options.eval_output, ErrorKind::config, options.output.string(),
          ": the training and the held-out records need different files");
}

class JsonEncoder {
 public:
  using Encoded = std::vector<EncodedExample>;

  JsonEncoder(const TokenizeOptions& options, const data::Tokenizer& tokenizer)
      : options_(options), template_(options.template_name, tokenizer, options.system) {
    require(!options.delimiter, ErrorKind::config,
            "a document delimiter is for plain text, the input is JSON lines");
  }

  void describe(data::TokenFileInfo& info) const {
    info.eos_id = template_.end_id();
    info.block = options_.block;
    info.template_name = template_.name();
    info.template_text = template_.fingerprint();
  }

  Encoded encode(const Unit& unit) const {
    try {
      Encoded encoded;
      for (const Example& example : parse_examples(unit.piece.text)) {
        require(options_.block == 0 || std::holds_alternative<TextExample>(example),
                ErrorKind::data, "only records with a 'text' can be joined to blocks");
        encoded.push_back(template_.encode(example));
      }
      return encoded;
    } catch (const Error& error) {
      fail(error.kind(), unit.where(), ": ", error.what());
    }
  }

  void deliver(const Unit& unit, Encoded encoded, RecordSink& sink, TokenizeReport& report) const {
    for (EncodedExample& example : encoded) {
      ++report.examples;
      report.boundary_split += example.boundary_split;
      if (example.ids.empty()) {
        ++report.empty;
      } else if (options_.block > 0) {
        sink.join(example.ids);
      } else {
        sink.add(std::move(example.ids), example.prompt_length, unit.number, unit.number,
                 unit.where());
      }
    }
  }

 private:
  const TokenizeOptions& options_;
  PromptTemplate template_;
};

class TextEncoder {
 public:
  using Encoded = std::vector<std::int32_t>;

  TextEncoder(const TokenizeOptions& options, const data::Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer) {
    require(tokenizer.eos_id().has_value(), ErrorKind::config,
            "plain text needs an end-of-text token, which the tokenizer does not have");
  }

  void describe(data::TokenFileInfo& info) const {
    info.eos_id = *tokenizer_.eos_id();
    info.block = options_.block;
    info.template_name = "text";
    info.template_text = data::fingerprint_of(str("text\n", options_.block, '\n',
                                                  options_.delimiter ? "delimiter" : "file", '\n',
                                                  options_.delimiter.value_or("")));
  }

  Encoded encode(const Unit& unit) const {
    check_utf8(unit);
    Encoded ids;
    const auto prefix = tokenizer_.prefix_ids();
    if (unit.piece.begins) ids.assign(prefix.begin(), prefix.end());
    const auto text = tokenizer_.encode(unit.piece.text, false).ids;
    ids.insert(ids.end(), text.begin(), text.end());
    if (unit.piece.ends) ids.push_back(*tokenizer_.eos_id());
    return ids;
  }

  void deliver(const Unit& unit, Encoded ids, RecordSink& sink, TokenizeReport& report) {
    report.examples += unit.piece.begins;
    if (options_.block > 0) {
      sink.join(ids);
      return;
    }
    if (unit.piece.begins) where_ = unit.where();
    document_.insert(document_.end(), ids.begin(), ids.end());
    if (unit.piece.ends) {
      sink.add(std::exchange(document_, {}), 0, unit.number, unit.number, where_);
    }
  }

 private:
  static void check_utf8(const Unit& unit) {
    const std::string& text = unit.piece.text;
    const std::size_t bad = find_invalid_utf8(text);
    if (bad == std::string::npos) return;
    const auto at = text.begin() + static_cast<std::ptrdiff_t>(bad);
    const auto line = unit.piece.line + std::count(text.begin(), at, '\n');
    const std::size_t start = bad == 0 ? std::string::npos : text.rfind('\n', bad - 1);
    fail(ErrorKind::data, unit.file->string(), ":", line, ": invalid UTF-8 at byte ",
         bad - (start == std::string::npos ? 0 : start + 1), " of the line");
  }

  const TokenizeOptions& options_;
  const data::Tokenizer& tokenizer_;
  Encoded document_;  // the ids of a document so far
  std::string where_;
};

// Reads units, encodes them a batch at a time on all threads, and delivers them in their order.
template <typename Encoder>
class Pipeline {
 public:
  Pipeline(const TokenizeOptions& options, Encoder& encoder, RecordSink& sink,
           TokenizeReport& report)
      : options_(options), encoder_(encoder), sink_(sink), report_(report) {}

  std::string run(TextForm form) {
    data::Fingerprint hash;
    for (const std::filesystem::path& path : options_.inputs) {
      LineReader lines(path, hash);
      form == TextForm::jsonl ? read_json(lines) : read_text(lines, path);
      flush();  // units point to their path
    }
    return hash.hex();
  }

 private:
  void read_json(LineReader& lines) {
    std::string line;
    while (lines.next(line)) {
      if (is_blank(line)) continue;
      ++report_.lines;
      add({&lines.path(),
           next_number_++,
           {std::string(without_break(line)), lines.line_number(), true, true}});
    }
  }

  void read_text(LineReader& lines, const std::filesystem::path& path) {
    read_documents(lines, options_.delimiter, kPieceBytes, [&](DocumentPiece piece) {
      const bool ends = piece.ends;
      add({&path, next_number_, std::move(piece)});
      next_number_ += ends;
    });
    report_.lines += lines.line_number();
  }

  void add(Unit unit) {
    bytes_ += unit.piece.text.size();
    units_.push_back(std::move(unit));
    if (bytes_ >= kBatchBytes || units_.size() >= kBatchUnits) flush();
  }

  void flush() {
    const std::size_t threads = options_.threads > 0 ? static_cast<std::size_t>(options_.threads)
                                                     : std::thread::hardware_concurrency();
    std::vector<typename Encoder::Encoded> encoded(units_.size());
    parallel_for(units_.size(), threads,
                 [&](std::size_t i) { encoded[i] = encoder_.encode(units_[i]); });
    for (std::size_t i = 0; i < units_.size(); ++i) {
      encoder_.deliver(units_[i], std::move(encoded[i]), sink_, report_);
    }
    units_.clear();
    bytes_ = 0;
  }

  const TokenizeOptions& options_;
  Encoder& encoder_;
  RecordSink& sink_;
  TokenizeReport& report_;
  std::vector<Unit> units_;
  std::size_t bytes_ = 0;
  std::int64_t next_number_ = 0;
};

template <typename Encoder>
TokenizeReport tokenize_with(Encoder encoder, const TokenizeOptions& options,
                             const data::Tokenizer& tokenizer, TextForm form) {
  data::TokenFileInfo info;
  info.vocab_size = tokenizer.vocab_size();
  info.tokenizer = tokenizer.fingerprint();
  encoder.describe(info);
  TokenizeReport report;
  report.template_name = info.template_name;
  RecordSink sink(options, info, report);
  sink.finish(Pipeline<Encoder>(options, encoder, sink, report).run(form));
  return report;
}

}  // namespace

TokenizeReport tokenize(const TokenizeOptions& options, const data::Tokenizer& tokenizer) {
  check(options);
  const TextForm form = form_of(options);
  if (form == TextForm::jsonl) {
    return tokenize_with(JsonEncoder(options, tokenizer), options, tokenizer, form);
  }
  return tokenize_with(TextEncoder(options, tokenizer), options, tokenizer, form);
}

}  // namespace fathom::data_tools
