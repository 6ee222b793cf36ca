#include "train/evaluation.h"

#include <algorithm>

#include "comm/stop_vote.h"

namespace fathom::train {
namespace {

/// Micro-batches of a part, for each pipeline stage: enough to keep the stages busy.
constexpr std::int64_t kPart = 16;

}  // namespace

eval::TokenMetrics evaluate(Engine& engine, const data::EvalBatches& batches,
                            const pipeline::ActionObserver& observer) {
  comm::ProcessGrid& grid = engine.grid();
  const data::Share share =
      data::share_of(batches.micro_batches(), grid.place().dp, grid.shape().dp);
  const std::int64_t part = kPart * grid.shape().pp;
  eval::TokenMetrics totals;
  for (std::int64_t begin = 0; begin < share.slots; begin += part) {
    comm::stop_if_asked(grid.world());
    std::vector<data::MicroBatch> slots;
    for (std::int64_t slot = begin; slot < std::min(begin + part, share.slots); ++slot)
      slots.push_back(batches.slot(share, slot));
    const model::LossSums sums = engine.evaluate(std::move(slots), observer);
    totals += {sums.cross_entropy, sums.tokens, sums.correct};
  }
  return totals;
}

}  // namespace fathom::train
