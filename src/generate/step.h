#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fathom::generate {

/// What a group of sequences feeds to the model at once: the whole prompts of new sequences,
/// packed, and behind them one row for each running sequence, its newest token.
struct Step {
  std::vector<std::int32_t> ids, positions;    ///< [rows]
  std::vector<std::int32_t> cache_rows;        ///< [rows] slot * capacity + position: where keys go
  std::vector<std::int32_t> prompt_starts{0};  ///< [prompts + 1] rows
  std::vector<std::int32_t> slots, lengths;    ///< of running sequences; entries with the row's own
  std::vector<std::int32_t> scored_rows;       ///< rows whose next token is wanted
  std::vector<std::size_t> prompts;            ///< [scored rows] number of the sequence's prompt

  std::int64_t rows() const { return static_cast<std::int64_t>(ids.size()); }
  std::int64_t prompt_rows() const { return prompt_starts.back(); }
  bool empty() const { return ids.empty(); }
};

/// What some of the sequences feed, prompts first, by their number in the step and ascending;
/// without scored rows.
Step sequences_of(const Step& step, const std::vector<std::int64_t>& which);

}  // namespace fathom::generate
