#include "generate/step.h"

namespace fathom::generate {

BlockRows sequences_of(const BlockRows& rows, const std::vector<std::int64_t>& which) {
  const auto prompts = static_cast<std::int64_t>(rows.prompt_starts.size()) - 1;
  BlockRows some;
  for (const std::int64_t s : which) {
    const bool prompt = s < prompts;
    const std::int64_t first =
        prompt ? rows.prompt_starts[static_cast<std::size_t>(s)] : rows.prompt_rows() + s - prompts;
    const std::int64_t end =
        prompt ? rows.prompt_starts[static_cast<std::size_t>(s) + 1] : first + 1;
    for (std::int64_t row = first; row < end; ++row) {
      const auto r = static_cast<std::size_t>(row);
      some.positions.push_back(rows.positions[r]);
      some.cache_rows.push_back(rows.cache_rows[r]);
    }
    if (prompt) {
      some.prompt_starts.push_back(static_cast<std::int32_t>(some.rows()));
      some.prompt_slots.push_back(rows.prompt_slots[static_cast<std::size_t>(s)]);
    } else {
      some.slots.push_back(rows.slots[static_cast<std::size_t>(s - prompts)]);
      some.lengths.push_back(rows.lengths[static_cast<std::size_t>(s - prompts)]);
    }
  }
  return some;
}

}  // namespace fathom::generate
