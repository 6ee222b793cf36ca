#pragma once

#include <memory>

#include "train/batch_source.h"

namespace fathom::train {

/// Another source's steps with micro-batches of a second token file beside them, on which the
/// student is trained as a language model.
class CorpusSource : public BatchSource {
 public:
  /// Corpus and grid must outlive the source.
  CorpusSource(std::unique_ptr<BatchSource> inner, const data::Dataset& corpus,
               const data::BatchPlan& plan, std::uint64_t seed, const comm::ProcessGrid& grid)
      : inner_(std::move(inner)), batches_(corpus, plan, seed), grid_(grid) {}

  StepBatches take(const StepClock& clock) override;
  std::vector<data::MicroBatch> upcoming(const StepClock& clock) const override {
    return inner_->upcoming(clock);
  }
  data::DataIdentity identity() const override;
  void evaluated(double loss) override { inner_->evaluated(loss); }
  MethodState state() const override { return inner_->state(); }
  void restore(const MethodState& state, const std::string& origin) override {
    inner_->restore(state, origin);
  }

 private:
  std::unique_ptr<BatchSource> inner_;
  data::TrainBatches batches_;
  const comm::ProcessGrid& grid_;
};

}  // namespace fathom::train
