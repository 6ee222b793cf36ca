#pragma once

#include "data/batch_plan.h"
#include "train/batch_source.h"

namespace fathom::train {

/// The records of the training set, in the order that the seed gives.
class DatasetSource : public BatchSource {
 public:
  /// The data set and the grid must outlive the source.
  DatasetSource(const data::Dataset& dataset, const data::BatchPlan& plan, std::uint64_t seed,
                const comm::ProcessGrid& grid)
      : batches_(dataset, plan, seed), grid_(grid) {}

  StepBatches take(const StepClock& clock) override;
  std::vector<data::MicroBatch> upcoming(const StepClock& clock) const override;
  data::DataIdentity identity() const override { return batches_.identity(); }

 private:
  data::TrainBatches batches_;
  const comm::ProcessGrid& grid_;
};

}  // namespace fathom::train
