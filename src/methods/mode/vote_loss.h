#pragma once

#include "methods/mode/late_vote.h"
#include "model/head.h"

namespace fathom::methods::mode {

struct VoteLoss {
  model::HeadLoss head;      ///< the task, on the mixture's logits
  float distill_weight = 0;  ///< lambda / (k - 1), divided by the step's supervised tokens
  float temperature = 1;     ///< of the distillation
};

/// What kernels/loss.h says of every row; undefined for no rows.
struct VoteResults {
  Tensor task;     ///< [m, kernels::kLossResults]
  Tensor distill;  ///< [(k - 1) m, kernels::kLossResults]: of each layer but the last
};

struct VoteSums {
  model::LossSums head;
  double distill = 0;  ///< weighted, as it enters the objective
};

/// The token losses of the mixture of late layers, and with it the distillation of the last layer
/// into the others,
///   sum over i < n of distill_weight KL(softmax(l_n / tau) || softmax(l_i / tau)),  l_i =
///   phi(x_i),
/// whose side of l_n has no gradient and no factor tau^2. All logits are those of a chunk of rows;
/// the mixture is made from the experts'. With a tape, gradients go to the head's slot at once, and
/// to experts and weights when it is played back. Collective over tp, which may be null; arguments
/// as in model::head_loss, `teacher` being another model. Needs two late layers or more.
///
/// Cost: the head's GEMM k times, and with gradients k times for the states and k times for a head
/// that is trained; the head is read once for the k layers of a chunk. The host does not wait.
VoteResults vote_losses(autograd::Tape* tape, comm::Communicator* tp, const VoteLoss& options,
                        const Votes& votes, const autograd::Var& head,
                        const model::HeadInput& teacher, const Tensor& labels);

/// The same, and waits for the sums.
VoteSums vote_loss(autograd::Tape* tape, comm::Communicator* tp, const VoteLoss& options,
                   const Votes& votes, const autograd::Var& head, const model::HeadInput& teacher,
                   const Tensor& labels);

}  // namespace fathom::methods::mode
