#pragma once

#include <limits>
#include <map>
#include <vector>

#include "data/batch.h"
#include "methods/mode/vote_loss.h"
#include "methods/state_loss.h"
#include "model/head.h"
#include "model/readback.h"
#include "pipeline/executor.h"
#include "train/config.h"
#include "train/row_alpha.h"
#include "train/rows.h"
#include "train/state_routes.h"
#include "train/token_loss.h"

namespace fathom::train {

/// Rows of logits that the fused head holds at a time unless loss.chunk_rows says otherwise: enough
/// for its GEMM to run at full rate, few enough that the logits of all `models` stay below 48 MiB.
std::int64_t default_chunk_rows(std::int64_t vocab, int models);

/// Logits of a chunk that exist at once: the mixture's or the model's, the teacher's, and those of
/// late layers that are distilled.
int logit_buffers(const ModeConfig& mode, bool teacher);

/// Losses on hidden states and where each of their sites is computed.
struct StateLosses {
  /// A loss and those of its sites, by its own numbers, that this stage computes.
  struct Placed {
    methods::StateLoss* loss = nullptr;
    std::vector<std::size_t> sites;
  };
  std::vector<Placed> losses;                     ///< all of the run, the same on every stage
  const methods::mode::LateVote* vote = nullptr;  ///< null: the last layer speaks alone
  StateRoutes routes;        ///< of the sites of all losses, one after the other, then the vote's
  StateRoutes without_tape;  ///< of the vote's alone: losses on states belong to training
  /// The first stage that sends a running sum of the vote on; the last one if none travels.
  int first_sum_sender = std::numeric_limits<int>::max();

  bool sum_leaves(int stage) const { return stage >= first_sum_sender; }

  const StateRoutes& routes_of(const autograd::Tape* tape) const {
    return tape != nullptr ? routes : without_tape;
  }
};

/// One step's losses on one stage's micro-batches: cross-entropy, a divergence from a teacher that
/// lives on the same grid, and losses on the hidden states of both. Plain training is the case
/// without a teacher.
class DistilWork : public pipeline::StageWork {
 public:
  struct Settings {
    LossConfig loss;
    ModeConfig mode;
    std::int64_t vocab = 0;  ///< entries that count, over all tensor ranks: both models have them
    DropoutConfig dropout;
    Recompute recompute = Recompute::cheap;
    std::uint32_t seed = 0;
    RowAlpha* row_alpha = nullptr;  ///< the curriculum of pairs; null: loss.alpha for all
  };

  /// `teacher` may be null. Stages and losses must outlive the work; `stage` is their place on the
  /// pipeline axis.
  DistilWork(model::Stage& student, model::Stage* teacher, int stage, const Settings& settings,
             StateLosses states = {});

  /// Replaces the losses on hidden states, and with them what bundles hold. Between two steps.
  void set_states(StateLosses states) { states_ = std::move(states); }

  /// What a bundle holds between `stage` and the next one: the teacher's states first, without
  /// gradient, then the student's, and the key states that later stages want: those of the vote,
  /// and in training those of losses; then the vote's running sum with its weights, where one
  /// travels. The student's have a gradient if anything before them is trained, from stage
  /// `first_trainable` on.
  std::vector<pipeline::BundlePart> bundle_parts(int stage, int first_trainable,
                                                 bool training) const;

  /// Sets the micro-batches of a step (by slot) and the step's global counts, by which the losses
  /// are divided.
  void begin(std::vector<data::MicroBatch> batches, const data::RoleCounts& counts,
             std::uint32_t step);

  /// Called when a bucket of the student's gradients is final for the step; see model::Pass.
  std::function<void(int)> bucket_done;

  /// Called with (slot, layer, states) for the student's hidden states, layer 0 being the
  /// embedding.
  std::function<void(int, std::int64_t, const autograd::Var&)> tap;
  /// Called with (slot, what the head multiplies) on the last stage, for all rows.
  std::function<void(int, const Tensor&)> head_tap;

  /// Called with (slot, votes, labels) on the last stage, for the supervised rows, where late
  /// layers vote.
  std::function<void(int, const methods::mode::Votes&, const Tensor&)> vote_tap;

  std::int64_t tokens(int slot) const override { return batch(slot).tokens(); }
  pipeline::Bundle forward(autograd::Tape* tape, int slot, const pipeline::Bundle& in) override;
  void finished(int slot) override { rows_.erase(slot); }

  const std::vector<data::MicroBatch>& batches() const { return batches_; }

  /// Reads what was said of losses since begin(): the one time that a step waits for its device.
  void end() { later_.read(); }

  /// Sums over this rank's micro-batches up to end(); zero except on the last stage.
  const RoleSums& sums() const { return sums_; }
  /// The vote's part of the objective and mean router weights up to end(); the same list on every
  /// rank, sums only on the last stage.
  std::vector<methods::StateTerm> vote_terms() const;
  /// Bytes that the tapes of the step kept, by operation: the largest of any micro-batch.
  const autograd::SavedBytes& saved_bytes() const { return saved_bytes_; }

 private:
  const data::MicroBatch& batch(int slot) const {
    return batches_.at(static_cast<std::size_t>(slot));
  }
  const DeviceRows& rows(int slot);
  model::Pass pass(autograd::Tape* tape, int slot);
  autograd::Var run_blocks(methods::Side side, const model::Stage& model, model::Pass pass,
                           const autograd::Var& in, const autograd::Tape* tape,
                           methods::KeyStates& states);
  void keep(const autograd::Tape* tape, methods::KeyState key, const autograd::Var& state,
            methods::KeyStates& states) const;
  using RowsOf = std::function<autograd::Var(const autograd::Var&)>;
  methods::mode::Votes votes(const model::Pass& pass, const methods::KeyStates& states,
                             const autograd::Var& last_normed, const RowsOf& rows_of) const;
  void show_head_input(int slot, const autograd::Var& student, const methods::KeyStates& states,
                       const methods::mode::RunningVote& vote) const;
  methods::mode::RunningVote extended(const model::Pass& pass, const methods::KeyStates& states,
                                      methods::mode::RunningVote so_far,
                                      const RowsOf& rows_of) const;
  void count_weights(const Tensor& weights);
  void vote_loss(const model::Pass& pass, int slot, const model::HeadLoss& options,
                 const methods::mode::Votes& votes, const model::HeadInput& teacher,
                 const Tensor& labels);
  void add_later(data::Role role, const Tensor& results);
  void last_stage_loss(const model::Pass& pass, int slot, const autograd::Var& teacher,
                       const autograd::Var& student, methods::KeyStates& states,
                       const methods::mode::RunningVote& vote);
  Tensor row_alpha(const model::HeadLoss& options, const model::HeadInput& student,
                   const model::HeadInput& teacher, int slot);
  std::int64_t counted_vocab() const;
  void add_heads(const model::Pass& pass, methods::KeyStates& states) const;
  void apply_state_losses(autograd::Tape* tape, int slot, const methods::KeyStates& states);

  model::Stage& student_;
  model::Stage* teacher_;
  int stage_;
  Settings settings_;
  StateLosses states_;
  std::vector<data::MicroBatch> batches_;
  std::map<int, DeviceRows> rows_;
  data::RoleCounts counts_;
  std::uint32_t step_ = 0;
  model::Readback later_;
  RoleSums sums_;
  double distill_sum_ = 0;           // of the vote, weighted and divided as in the objective
  std::vector<double> weight_sums_;  // of its router, by late layer
  autograd::SavedBytes saved_bytes_;
};

}  // namespace fathom::train
