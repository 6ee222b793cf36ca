#include "generate/exit_ledger.h"

#include "core/error.h"

namespace fathom::generate {

ExitLedger::ExitLedger(const ExitOptions& options, std::int64_t slots, std::int64_t gate,
                       std::int64_t layers)
    : options_(options), gate_(gate), layers_(layers), waiting_(static_cast<std::size_t>(slots)) {}

std::vector<LateRow> ExitLedger::plan(const Step& step, std::span<const std::int64_t> depths) {
  for (const std::int32_t slot : step.prompt_slots)
    waiting_[static_cast<std::size_t>(slot)].clear();
  std::vector<LateRow> rows;
  for (std::size_t i = 0; i < step.slots.size(); ++i) {
    const std::size_t scored = step.prompt_slots.size() + i;
    const std::int64_t depth = depths[scored];
    FATHOM_CHECK(depth > gate_ && depth <= layers_, "depth ", depth, " of ", layers_, " layers");
    LateRow newest{.slot = step.slots[i],
                   .position = step.lengths[i] - 1,
                   .scored = static_cast<std::int32_t>(scored),
                   .from = gate_,
                   .to = depth,
                   .until = depth};
    switch (options_.cache) {
      case ExitCache::deferred:
        append(rows, newest);
        break;
      case ExitCache::copy:
        newest.until = layers_;
        rows.push_back(newest);
        break;
      case ExitCache::off:
        newest.to = newest.until = layers_;
        rows.push_back(newest);
        break;
    }
  }
  return rows;
}

void ExitLedger::append(std::vector<LateRow>& rows, const LateRow& newest) {
  std::vector<Waiting>& waiting = waiting_[static_cast<std::size_t>(newest.slot)];
  const auto would_wait = static_cast<std::int64_t>(waiting.size()) + 1;
  const bool forced = options_.flush > 0 && would_wait >= options_.flush;
  const std::int64_t to = forced ? layers_ : newest.to;
  for (Waiting& token : waiting) {
    if (token.depth >= to) continue;
    rows.push_back({.slot = newest.slot,
                    .position = token.position,
                    .from = token.depth,
                    .to = to,
                    .until = to});
    token.depth = to;
  }
  rows.push_back(newest);
  rows.back().to = rows.back().until = to;
  if (to == layers_)
    waiting.clear();
  else
    waiting.push_back({newest.position, to});
}

}  // namespace fathom::generate
