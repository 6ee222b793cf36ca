#pragma once

#include <cstdint>
#include <vector>

#include "comm/process_grid.h"
#include "data/batch_plan.h"
#include "train/method_state.h"
#include "train/metrics/step_metrics.h"

namespace fathom::train {

/// One optimizer step's micro-batches on this rank, by slot, and the counts of the whole step.
struct StepBatches {
  std::vector<data::MicroBatch> slots;
  data::RoleCounts counts;              ///< over all ranks, the same on each of them
  std::vector<NamedValue> report = {};  ///< for the metrics; the same names at every step
  std::string remark = {};              ///< a few words of it for the console
};

/// Where in a run a step is.
struct StepClock {
  std::int64_t step = 0;   ///< optimizer steps done
  std::int64_t steps = 1;  ///< of the whole run
  std::int64_t data = 0;   ///< steps since the training data began
};

/// Where the micro-batches of a run's steps come from.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// The micro-batches of a step. Those of a run do not depend on the grid: each belongs to one
  /// data-parallel rank as a whole, and ranks with fewer of them get empty ones. Collective over
  /// the grid, once for each step and in their order; may generate text with the student's weights
  /// as they are.
  virtual StepBatches take(const StepClock& clock) = 0;

  /// Micro-batches that take() will return for a step, as far as they are known by now: what they
  /// need can be prepared meanwhile. Not collective.
  virtual std::vector<data::MicroBatch> upcoming(const StepClock& clock) const = 0;

  /// What fixes the sequence of samples.
  virtual data::DataIdentity identity() const = 0;

  /// Takes in the loss on the evaluation set, the same on every rank, before the first step and
  /// whenever it is measured. Nothing that a step draws from may change at any other time but by
  /// take().
  virtual void evaluated(double /*loss*/) {}

  /// What it knows between two steps, and its restoration on any grid. restore() throws Error(io)
  /// naming `origin` for a state that it cannot use.
  virtual MethodState state() const { return {}; }
  virtual void restore(const MethodState& /*state*/, const std::string& /*origin*/) {}
};

/// The micro-batches of `count` that fall to replica `replica` of `dp`: `make(j)` for each of its
/// block, and empty ones up to the number of slots that all replicas have.
template <typename Make>
std::vector<data::MicroBatch> fill_slots(std::int64_t count, int replica, int dp,
                                         const Make& make) {
  const data::Share share = data::share_of(count, replica, dp);
  std::vector<data::MicroBatch> slots(static_cast<std::size_t>(share.slots));
  for (std::int64_t j = share.begin; j < share.end; ++j)
    slots[static_cast<std::size_t>(j - share.begin)] = make(j);
  return slots;
}

/// Those of this rank.
template <typename Make>
std::vector<data::MicroBatch> fill_slots(std::int64_t count, const comm::ProcessGrid& grid,
                                         const Make& make) {
  return fill_slots(count, grid.place().dp, grid.shape().dp, make);
}

}  // namespace fathom::train
