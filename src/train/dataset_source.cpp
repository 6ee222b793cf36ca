#include "train/dataset_source.h"

namespace fathom::train {

StepBatches DatasetSource::take(const StepClock& clock) {
  const auto make = [&](std::int64_t j) { return batches_.micro_batch(clock.data, j); };
  return {.slots = fill_slots(batches_.plan().micro_batches, grid_, make),
          .counts = data::RoleCounts(batches_.counts(clock.data))};
}

std::vector<data::MicroBatch> DatasetSource::upcoming(const StepClock& clock) const {
  return fill_slots(batches_.plan().micro_batches, grid_,
                    [&](std::int64_t j) { return batches_.micro_batch(clock.data, j); });
}

}  // namespace fathom::train
