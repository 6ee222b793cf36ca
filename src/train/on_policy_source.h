#pragma once

#include <functional>
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
  std::vector<data::MicroBatch> upcoming(const StepClock& clock) const override;
  data::DataIdentity identity() const override { return batches_.identity(); }
  void evaluated(double loss) override;
  MethodState state() const override;
  void restore(const MethodState& state, const std::string& origin) override;

  /// What is told of while it is written: `progress` between tokens, for the watchdog, and
  /// `written` of each answer that will be in this rank's micro-batches of the step, alone in one,
  /// so that what it needs can begin. Answers that another replica writes for this one come without
  /// notice. Either may be empty.
  void set_observers(std::function<void()> progress,
                     std::function<void(const data::MicroBatch&)> written);

  /// Probability of the student's own text, before the draws of a step.
  double threshold() const;
  const methods::distill::ReplayBuffer* buffer() const { return buffer_ ? &*buffer_ : nullptr; }

 private:
  using Origin = methods::distill::Origin;
  std::vector<Origin> choose(const StepClock& clock) const;
  std::vector<AnswerWriter::Sample> samples(const StepClock& clock, std::int64_t j) const;
  bool mine(std::int64_t j) const;
  std::int64_t micro_batch_of(const methods::distill::AnsweredPrompt& text) const;
  void replay(const StepClock& clock, std::int64_t j, data::MicroBatch& batch) const;
  std::vector<NamedValue> report(const std::vector<Origin>& origins) const;

  data::TrainBatches batches_;
  std::uint64_t seed_;
  DistillConfig config_;
  comm::ProcessGrid& grid_;
  AnswerWriter writer_;
  AnswerWriter::Totals reported_;
  std::int64_t first_sample_ = 0;  // of the step that is being written
  // With method = adaptive.
  std::optional<methods::distill::Threshold> threshold_;
  std::optional<methods::distill::ReplayBuffer> buffer_;
};

}  // namespace fathom::train
