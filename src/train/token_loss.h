#pragma once

#include <array>

#include "data/batch_plan.h"
#include "kernels/loss.h"
#include "model/head.h"
#include "train/config.h"
#include "train/metrics/step_metrics.h"

namespace fathom::train {

/// The losses of a token in a micro-batch of a role as [loss] asks for them, each weight divided by
/// its term's own denominator (of `counts`, over all ranks) and the divergence's multiplied by T^2
/// where wanted:
///   dataset       ce_weight CE over the data set's tokens, kd_weight D over those of both
///   student_text  kd_weight D alone: a student does not learn to repeat itself
///   corpus        corpus_weight CE over the corpus's tokens
///   chosen        kd_weight (2 - rejected_weight) skew KL       } the mean over sequences of each
///   rejected      kd_weight rejected_weight skew reverse KL     } one's mean over its tokens
/// The last two are DistiLLM-2's (arXiv 2503.07067, eq. 8), the mixture of the second detached.
kernels::TokenLoss token_loss(const LossConfig& config, const data::RoleCounts& counts,
                              data::Role role);

/// The factors of every supervised row's losses, [rows, 2], that make a sum over rows the sum over
/// sequences of each one's token mean; undefined where tokens are counted.
Tensor row_weights(Device& device, const LossConfig& config, const data::MicroBatch& batch);

/// Sums of the losses over micro-batches, by role.
class RoleSums {
 public:
  model::LossSums& operator[](data::Role role) { return sums_[static_cast<std::size_t>(role)]; }
  const model::LossSums& operator[](data::Role role) const {
    return sums_[static_cast<std::size_t>(role)];
  }
  model::LossSums total() const;

  /// Adds the sums of all ranks of a group. Collective.
  void all_reduce(comm::Communicator& group);

 private:
  std::array<model::LossSums, data::kRoles> sums_;
};

/// The terms of a step's loss by name, each a mean over its own tokens, without weights; 0 for a
/// term without tokens in this step. The same names at every step of a run.
std::vector<NamedValue> loss_parts(const TrainConfig& config, const RoleSums& sums);

}  // namespace fathom::train
