#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/tokenizers/tokenizer.h"

namespace fathom::data_tools {

enum class TextForm {
  automatic,  ///< by the file's name: .jsonl and .json are JSON lines, the rest is text
  jsonl,      ///< one JSON object a line (example.h lists the fields)
  text,       ///< plain text
};

struct TokenizeOptions {
  std::vector<std::filesystem::path> inputs;  ///< read in this order
  std::filesystem::path output;               ///< token file to write
  TextForm form = TextForm::automatic;

  std::string template_name = "auto";  ///< of JSON lines (prompt_template.h)
  std::optional<std::string> system;   ///< instead of the template's default system message

  /// Plain text: a line equal to it (blank, for an empty text) separates two documents. Not given:
  /// each file is one document.
  std::optional<std::string> delimiter;
  /// > 0: documents, each closed by the end-of-text id, are joined and cut into records of `block`
  /// inputs, whose last label is the next one's first input; what remains at the end is a shorter
  /// record. 0: one record a document.
  std::int64_t block = 0;

  /// > 0: the policy for records of more inputs than that. 0: no limit.
  std::int64_t context = 0;
  data::Overlong overlong = data::Overlong::refuse;

  /// Records held out into `eval_output`: the first `eval_first` lines (documents, or blocks), or a
  /// share of them chosen by a hash of (seed, number). At most one of the two may be set.
  std::filesystem::path eval_output;
  std::int64_t eval_first = 0;
  double eval_fraction = 0.0;
  std::uint64_t seed = 1;

  int threads = 0;  ///< 0: one a core
};

/// What was read and written.
struct TokenizeReport {
  /// Of one output file.
  struct Output {
    std::filesystem::path path;
    std::int64_t records = 0;
    std::int64_t tokens = 0;
    std::int64_t label_tokens = 0;
    std::string fingerprint;
  };

  std::string template_name;  ///< what `auto` chose; "text" for plain text
  std::int64_t lines = 0;     ///< read, blank ones left out
  std::int64_t examples = 0;  ///< JSON: may be several a line; text: documents
  std::int64_t empty = 0;     ///< left out: no response, or no text
  std::int64_t skipped = 0;   ///< left out: longer than the context
  std::int64_t truncated = 0;
  std::int64_t unlabelled = 0;        ///< left out: truncation left no response
  std::int64_t boundary_split = 0;    ///< prompt and response encoded apart to keep the boundary
  std::vector<std::int32_t> lengths;  ///< ids of each written record, ascending
  std::vector<std::int32_t> prompt_lengths;  ///< ascending
  Output train;
  std::optional<Output> eval;
};

/// Turns text into token files, on several threads, in memory that does not grow with the input's
/// text (a few bytes a record, and a megabyte or so of text at a time). The result does not depend
/// on the number of threads. Documents of many megabytes are encoded in pieces, cut at line breaks
/// between two printable ASCII characters, where byte-level tokenizers never merge.
///
/// Throws Error(data) with file and line for malformed JSON, invalid UTF-8, missing fields, records
/// that the template cannot hold or (under `refuse`) too long; for an input, or a side of the
/// split, without a record; Error(config) for options that contradict each other and for templates
/// that do not fit the tokenizer; Error(io) for the disk. No output file is left behind on an
/// error.
TokenizeReport tokenize(const TokenizeOptions& options, const data::Tokenizer& tokenizer);

/// The report in a few lines for people: counts and percentiles of lengths.
std::string to_text(const TokenizeReport& report);

}  // namespace fathom::data_tools
