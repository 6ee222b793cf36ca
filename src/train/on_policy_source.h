#pragma once

#include <optional>

#include "methods/distill/threshold.h"
#include "train/answer_writer.h"
#include "train/batch_source.h"
#include "train/config.h"

namespace fathom::train {

/// The training set, and in place of some of its micro-batches the student's own answers to their
/// prompts, as [distill] says: mixed or adaptive. The choices of a step look at the replay buffer
/// as it was before the step; its new answers join the buffer afterwards.
class OnPolicySource : public BatchSource {
 public:
  /// Data set, stage and grid must outlive the source. Throws what AnswerWriter throws.
  OnPolicySource(const data::Dataset& dataset, const data::BatchPlan& plan, std::uint64_t seed,
                 const DistillConfig& config, const model::Stage& student, comm::ProcessGrid& grid,
                 const methods::mode::LateVote* vote = nullptr);

  StepBatches take(const StepClock& clock) override;
  /// What is yet to be answered is empty: the weights that answer it come with the steps before.
  /// Its spans are found by all ranks together once it is written.
  std::vector<data::MicroBatch> upcoming(const StepClock& clock) const override;
  data::DataIdentity identity() const override { return batches_.identity(); }
  void evaluated(double loss) override;
  MethodState state() const override;
  void restore(const MethodState& state, const std::string& origin) override;

  AnswerWriter& writer() { return writer_; }
  /// Probability of the student's own text, before the draws of a step.
  double threshold() const;
  const methods::distill::ReplayBuffer* buffer() const { return buffer_ ? &*buffer_ : nullptr; }

 private:
  using Origin = methods::distill::Origin;
  std::vector<Origin> choose(const StepClock& clock) const;
  std::vector<AnswerWriter::Sample> samples(const StepClock& clock, std::int64_t j) const;
  void replay(const StepClock& clock, std::int64_t j, data::MicroBatch& batch) const;
  std::vector<NamedValue> report(const std::vector<Origin>& origins) const;

  data::TrainBatches batches_;
  std::uint64_t seed_;
  DistillConfig config_;
  comm::ProcessGrid& grid_;
  AnswerWriter writer_;
  AnswerWriter::Totals reported_;
  // With method = adaptive.
  std::optional<methods::distill::Threshold> threshold_;
  std::optional<methods::distill::ReplayBuffer> buffer_;
};

}  // namespace fathom::train
