#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/spans/span_file.h"

namespace fathom::data_tools {

/// How two span files of one token file differ.
struct SpanDifference {
  std::int64_t records = 0;     ///< that differ in any way
  std::int64_t words_left = 0;  ///< words that only the first file has
  std::int64_t words_right = 0;
  std::int64_t phrases_left = 0;  ///< phrases (ids or kind) that only the first file has
  std::int64_t phrases_right = 0;
  std::string first;        ///< the first difference in words; empty if there is none
  std::string definitions;  ///< how the definitions differ; empty if they are the same

  bool equal() const { return records == 0 && definitions.empty(); }
};

/// Compares record by record. Throws Error(data) if the files belong to different token files,
/// whose records have nothing to do with each other.
SpanDifference compare_spans(const data::spans::SpanFile& left, const data::spans::SpanFile& right);

/// For people.
std::string to_text(const SpanDifference& difference);

/// What a span file is and holds, for people.
std::string describe_span_file(const data::spans::SpanFile& file);

}  // namespace fathom::data_tools
