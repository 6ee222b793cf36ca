#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "data/spans/span_file.h"
#include "data/spans/token_spans.h"

namespace fathom::data_tools {

struct SpanProgress {
  std::int64_t records = 0;  ///< done
  std::int64_t all_records = 0;
  std::int64_t tokens = 0;  ///< done
  double seconds = 0.0;
};

struct SpanReport {
  std::int64_t records = 0;
  std::int64_t tokens = 0;
  std::int64_t words = 0;
  std::int64_t noun_phrases = 0;
  std::int64_t verb_phrases = 0;
  std::int64_t without_phrases = 0;  ///< records that align by words alone
  double seconds = 0.0;
};

/// Finds the spans of every record of a token file on so many threads (0: one a core) and writes
/// them to a span file, which does not depend on the number of threads. `find` is called with the
/// texts of a few dozen records at a time, from any of the threads. `progress` is called now and
/// then, from this one. `info` need not know the token file: its two fingerprints are filled in
/// here. Throws Error(data) if the tokenizer is not the token file's, and Error(io) for the disk;
/// no file is left behind on an error.
SpanReport build_spans(const data::TokenFile& tokens, const data::Tokenizer& tokenizer,
                       const data::spans::FindSpans& find, data::spans::SpanFileInfo info,
                       const std::filesystem::path& output, int threads,
                       const std::function<void(const SpanProgress&)>& progress);

/// The report in a few lines for people.
std::string to_text(const SpanReport& report);

}  // namespace fathom::data_tools
