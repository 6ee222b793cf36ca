#pragma once

#include <vector>

#include "autograd/tape.h"
#include "comm/communicator.h"
#include "kernels/dynamics.h"

namespace fathom::methods::distill {

/// Hidden states of one model at the key layers, lowest first, and its head. What the head
/// multiplies is the state itself; only a last layer's has passed the final norm (and a projection
/// where the model has one): the caller sees to that.
struct KeyLayerStates {
  std::vector<autograd::Var> states;    ///< K of [n, embed_dim], the same rows in all
  const autograd::Var* head = nullptr;  ///< [vocab on this rank, embed_dim]
};

struct FddOptions {
  /// Of the gradient, for kernels/dynamics.h: a term's weight divided by the step's number of
  /// tokens, and by K (trajectory) or K - 1 (derivative). A derivative of weight 0 is left out.
  kernels::DynamicsLoss loss;
  std::int64_t vocab = 0;         ///< entries that count, of this rank: both models have them
  std::int64_t chunk_rows = 128;  ///< at most 2 K chunk_rows rows of logits at a time
};

/// Sums over rows and key layers of one micro-batch; identical on every tensor rank.
struct FddSums {
  double trajectory = 0;  ///< over K layers, nats
  double derivative = 0;  ///< over K - 1 pairs
  std::int64_t tokens = 0;

  FddSums& operator+=(const FddSums& other);
};

/// Feature dynamics distillation (Gong et al., ACL 2025): the student's next-token distributions at
/// the key layers follow the teacher's, and so do their changes from one key layer to the next. All
/// rows count, the prompt's as well. With a tape, the gradient goes to the head's slot at once and
/// to the student's states when the tape is played back. Collective over tp, which may be null.
/// Throws Error(config) for a derivative of a single key layer. Returns the terms of every row, [n,
/// kernels::kDynamicsResults], for sum_dynamics(); undefined for no rows. The host does not wait.
///
/// Cost: the head's GEMM 2 K times, and with gradients 2 K times more; entries are read three
/// times.
Tensor fdd_losses(autograd::Tape* tape, comm::Communicator* tp, const FddOptions& options,
                  const KeyLayerStates& student, const KeyLayerStates& teacher);

/// Sums of such results in row-major order.
FddSums sum_dynamics(const std::vector<float>& results);

/// The same, and waits for the sums.
FddSums fdd_loss(autograd::Tape* tape, comm::Communicator* tp, const FddOptions& options,
                 const KeyLayerStates& student, const KeyLayerStates& teacher);

}  // namespace fathom::methods::distill
