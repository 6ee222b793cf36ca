#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fathom::generate {

/// Rows that go through blocks together: the whole prompts of new sequences, packed, and behind
/// them rows of running sequences.
struct BlockRows {
  std::vector<std::int32_t> positions;         ///< [rows]
  std::vector<std::int32_t> cache_rows;        ///< [rows] slot * capacity + position: where keys go
  std::vector<std::int32_t> prompt_starts{0};  ///< [prompts + 1] rows
  std::vector<std::int32_t> prompt_slots;      ///< [prompts]
  std::vector<std::int32_t> slots, lengths;    ///< of running rows; entries with the row's own

  std::int64_t rows() const { return static_cast<std::int64_t>(positions.size()); }
  std::int64_t prompt_rows() const { return prompt_starts.back(); }
};

/// The rows of some of the sequences, prompts first, by their number in `rows` and ascending; a
/// running row is a sequence.
BlockRows sequences_of(const BlockRows& rows, const std::vector<std::int64_t>& which);

/// What a group of sequences feeds to the model at once: new prompts, and one row for each running
/// sequence, its newest token.
struct Step : BlockRows {
  std::vector<std::int32_t> ids;          ///< [rows]
  std::vector<std::int32_t> scored_rows;  ///< rows whose next token is wanted
  std::vector<std::size_t> prompts;       ///< [scored rows] number of the sequence's prompt

  bool empty() const { return ids.empty(); }
};

}  // namespace fathom::generate
