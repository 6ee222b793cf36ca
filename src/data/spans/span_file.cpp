#include "data/spans/span_file.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/spans/crc32.h"
#include "data/spans/span_file_layout.h"

namespace fathom::data::spans {
namespace {

constexpr const char* kMaker = "`fathom spans build` makes span files";

// A sound-looking path that HDF5 refuses is a damaged or foreign file: bad data, not a bad disk.
h5::File open_h5(const std::filesystem::path& path) {
  require(std::filesystem::exists(path), ErrorKind::io, path.string(), ": no such span file; ",
          kMaker);
  try {
    return h5::File::open(path);
  } catch (const Error& error) {
    fail(ErrorKind::data, path.string(), ": not an HDF5 file, or a truncated one: ", error.what());
  }
}

std::string text(const h5::File& file, const char* name) {
  require(file.has_attribute("/", name), ErrorKind::data, file.path().string(), ": attribute '",
          name, "' is missing; ", kMaker);
  return file.text_attribute("/", name);
}

SpanFileInfo read_info(const h5::File& file) {
  const std::string where = file.path().string();
  const std::string format = text(file, layout::kFormat);
  require(format == layout::kFormatName, ErrorKind::data, where, ": format '", format, "', not '",
          layout::kFormatName, "'");
  require(file.has_attribute("/", layout::kVersion), ErrorKind::data, where, ": attribute '",
          layout::kVersion, "' is missing; ", kMaker);
  const std::int64_t version = file.int_attribute("/", layout::kVersion);
  require(version == layout::kVersionNumber, ErrorKind::data, where, ": format version ", version,
          ", this program reads ", layout::kVersionNumber, "; build the spans again");
  for (const char* name :
       {layout::kLengths, layout::kPromptLengths, layout::kChecksums, layout::kWordOffsets,
        layout::kWords, layout::kPhraseOffsets, layout::kPhrases, layout::kKinds}) {
    require(file.exists(name), ErrorKind::data, where, ": dataset '", name, "' is missing; ",
            kMaker);
  }
  return {.definition = text(file, layout::kDefinition),
          .extractor = text(file, layout::kExtractor),
          .model = text(file, layout::kModel),
          .model_sha256 = text(file, layout::kModelSha256),
          .tokenizer = text(file, layout::kTokenizer),
          .tokens = text(file, layout::kTokens)};
}

/// Checks a list of spans within [0, length): ends and begins ascend, none lies across `prompt`.
void check_list(const std::vector<Span>& list, const char* what, std::int32_t prompt,
                std::int64_t length, bool disjoint, const std::string& where) {
  Span last;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Span span = list[i];
    const bool within = 0 <= span.begin && span.begin < span.end && span.end <= length;
    const bool one_side = span.end <= prompt || span.begin >= prompt;
    const bool ordered =
        disjoint ? span.begin >= last.end
                 : span.begin >= last.begin && span.end >= last.end && (i == 0 || !(span == last));
    require(within && one_side && ordered, ErrorKind::data, where, ": ", what, " ", i, " is ids ",
            span.begin, " to ", span.end, " of ", length, ", prompt ", prompt, ", after ",
            last.begin, " to ", last.end, "; ascending ranges within one part expected");
    last = span;
  }
}

}  // namespace

std::string definition_of(const Options& options) {
  return str("words=", options.words == Words::all ? "all" : "in-phrases",
             ";np=noun_chunks;vp=", options.verb == VerbPhrases::pattern ? "pattern" : "group",
             ";sweep=containment;tokens=inside;1");
}

void check_spans(const TokenSpans& spans, std::int64_t length, const std::string& where) {
  require(spans.prompt_length >= 0 && spans.prompt_length <= length, ErrorKind::data, where,
          ": prompt length ", spans.prompt_length, "; 0 to ", length, " expected");
  require(spans.kinds.size() == spans.phrases.size(), ErrorKind::data, where, ": ",
          spans.kinds.size(), " kinds for ", spans.phrases.size(), " phrases");
  check_list(spans.words, "word", spans.prompt_length, length, true, where);
  check_list(spans.phrases, "phrase", spans.prompt_length, length, false, where);
  for (std::size_t i = 0; i < spans.kinds.size(); ++i) {
    require(spans.kinds[i] == PhraseKind::noun || spans.kinds[i] == PhraseKind::verb,
            ErrorKind::data, where, ": phrase ", i, " is of kind ",
            static_cast<int>(spans.kinds[i]), "; 0 (noun) or 1 (verb) expected");
  }
}

SpanFile::SpanFile(h5::File file)
    : path_(file.path()),
      info_(read_info(file)),
      lengths_(file.read<std::uint32_t>(layout::kLengths)),
      prompt_lengths_(file.read<std::uint32_t>(layout::kPromptLengths)),
      checksums_(file.read<std::uint32_t>(layout::kChecksums)),
      word_offsets_(file.read<std::uint64_t>(layout::kWordOffsets)),
      phrase_offsets_(file.read<std::uint64_t>(layout::kPhraseOffsets)),
      file_(std::move(file)) {
  check_index();
  narrow_ = file_.info(layout::kWords).type == h5::Type::u16;
}

SpanFile SpanFile::open(const std::filesystem::path& path) {
  return SpanFile(open_h5(path));
}

void SpanFile::check_index() const {
  const std::string file = path_.string();
  require(records() > 0, ErrorKind::data, file, ": holds no record");
  require(prompt_lengths_.size() == lengths_.size() && checksums_.size() == lengths_.size() &&
              word_offsets_.size() == lengths_.size() + 1 &&
              phrase_offsets_.size() == lengths_.size() + 1,
          ErrorKind::data, file, ": ", lengths_.size(), " lengths, ", prompt_lengths_.size(),
          " prompt lengths, ", checksums_.size(), " checksums, ", word_offsets_.size(), " and ",
          phrase_offsets_.size(), " offsets; equal numbers, and one more offset, expected");
  for (const auto* offsets : {&word_offsets_, &phrase_offsets_}) {
    const bool words = offsets == &word_offsets_;
    const h5::Shape shape = file_.info(words ? layout::kWords : layout::kPhrases).shape;
    require(shape.size() == 2 && shape[1] == 2 && offsets->front() == 0 &&
                offsets->back() == shape[0] && std::is_sorted(offsets->begin(), offsets->end()),
            ErrorKind::data, file, ": offsets of ", words ? "words" : "phrases",
            " do not ascend from 0 to the number of rows of their array, which has the shape ",
            h5::to_string(shape), "; build the spans again");
  }
  require(file_.info(layout::kKinds).shape == h5::Shape{phrase_offsets_.back()}, ErrorKind::data,
          file, ": ", h5::to_string(file_.info(layout::kKinds).shape), " kinds for ",
          phrase_offsets_.back(), " phrases");
  require(file_.info(layout::kWords).type == file_.info(layout::kPhrases).type, ErrorKind::data,
          file, ": words and phrases of different types; build the spans again");
}

std::string SpanFile::where(std::int64_t record) const {
  return str(path_.string(), ": record ", record);
}

void SpanFile::require_made_of(const TokenFile& tokens) const {
  const auto refuse = [&](const char* what, const auto& mine, const auto& theirs) {
    fail(ErrorKind::data, path_.string(), ": made of another token file than ",
         tokens.path().string(), " (", what, " ", mine, ", there ", theirs,
         "): fathom spans build --tokens=", tokens.path().string(), " --output=", path_.string(),
         " makes it anew");
  };
  const TokenFileInfo& info = tokens.info();
  if (info_.tokenizer != info.tokenizer) refuse("tokenizer", info_.tokenizer, info.tokenizer);
  if (records() != tokens.records()) refuse("records", records(), tokens.records());
  if (info_.tokens != info.content) refuse("content", info_.tokens, info.content);
}

void SpanFile::require_definition(const Options& options) const {
  const std::string asked = definition_of(options);
  require(info_.definition == asked, ErrorKind::data, path_.string(), ": holds spans of '",
          info_.definition, "', asked for are '", asked,
          "'; build the spans again, or change spans.words and spans.vp");
}

std::vector<Span> SpanFile::read_spans(const char* dataset, std::uint64_t begin,
                                       std::uint64_t end) const {
  std::vector<Span> spans(end - begin);
  const auto read = [&]<typename T>(std::vector<T> pairs) {
    file_.read_part(dataset, {begin, 0}, {end - begin, 2}, std::span(pairs));
    for (std::size_t i = 0; i < spans.size(); ++i) {
      spans[i] = {static_cast<std::int32_t>(pairs[2 * i]),
                  static_cast<std::int32_t>(pairs[2 * i + 1])};
    }
  };
  if (narrow_) {
    read(std::vector<std::uint16_t>(2 * spans.size()));
  } else {
    read(std::vector<std::uint32_t>(2 * spans.size()));
  }
  return spans;
}

TokenSpans SpanFile::spans(std::int64_t record) const {
  require(record >= 0 && record < records(), ErrorKind::data, where(record), "; the file has 0 to ",
          records() - 1);
  const auto r = static_cast<std::size_t>(record);
  TokenSpans result;
  result.prompt_length = static_cast<std::int32_t>(prompt_lengths_[r]);
  std::vector<std::uint8_t> kinds(phrase_offsets_[r + 1] - phrase_offsets_[r]);
  {
    const std::lock_guard lock(*reading_);
    result.words = read_spans(layout::kWords, word_offsets_[r], word_offsets_[r + 1]);
    result.phrases = read_spans(layout::kPhrases, phrase_offsets_[r], phrase_offsets_[r + 1]);
    file_.read_part(layout::kKinds, {phrase_offsets_[r]}, {kinds.size()}, std::span(kinds));
  }
  for (const std::uint8_t kind : kinds) result.kinds.push_back(static_cast<PhraseKind>(kind));
  check_spans(result, length(record), where(record));
  return result;
}

TokenSpans SpanFile::spans(std::int64_t record, std::span<const std::int32_t> ids) const {
  TokenSpans result = spans(record);
  const std::uint32_t found = crc32_of(ids);
  require(found == checksum(record) && std::ssize(ids) == length(record), ErrorKind::data,
          where(record), ": made for ", length(record), " ids with the checksum ", checksum(record),
          ", not for these ", ids.size(), " with ", found, "; build the spans again");
  return result;
}

}  // namespace fathom::data::spans
