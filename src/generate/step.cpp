#include "generate/step.h"

namespace fathom::generate {

Step sequences_of(const Step& step, const std::vector<std::int64_t>& which) {
  const auto prompts = static_cast<std::int64_t>(step.prompt_starts.size()) - 1;
  Step some;
  for (const std::int64_t s : which) {
    const bool prompt = s < prompts;
    const std::int64_t first =
        prompt ? step.prompt_starts[static_cast<std::size_t>(s)] : step.prompt_rows() + s - prompts;
    const std::int64_t end =
        prompt ? step.prompt_starts[static_cast<std::size_t>(s) + 1] : first + 1;
    for (std::int64_t row = first; row < end; ++row) {
      const auto r = static_cast<std::size_t>(row);
      some.ids.push_back(step.ids[r]);
      some.positions.push_back(step.positions[r]);
      some.cache_rows.push_back(step.cache_rows[r]);
    }
    if (prompt) {
      some.prompt_starts.push_back(static_cast<std::int32_t>(some.rows()));
    } else {
      some.slots.push_back(step.slots[static_cast<std::size_t>(s - prompts)]);
      some.lengths.push_back(step.lengths[static_cast<std::size_t>(s - prompts)]);
    }
  }
  return some;
}

}  // namespace fathom::generate
