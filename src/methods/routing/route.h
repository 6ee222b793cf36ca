#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "methods/routing/decision.h"

// A linear router of tokens, as a differentiable operation. n tokens, L experts, d the model's
// width.

namespace fathom::methods::routing {

/// What a gate decided on one micro-batch at one site.
struct Decision {
  std::vector<Choice> groups;        ///< by group
  std::vector<double> tokens;        ///< [groups] that decided
  std::vector<double> picks, probs;  ///< [L] sums over this rank's counted tokens: K best, softmax
};

/// Sums of softmax [1, L] over all sites of a gate have one gradient for all of them; it lies in
/// these columns of the slot when the backward pass begins.
struct BalanceGradient {
  std::shared_ptr<autograd::GradSlot> slot;  ///< null if there is no balance term
  std::int64_t first_column = 0;
};

/// Who decides together.
struct Deciders {
  comm::Communicator* tp = nullptr;  ///< ranks with the same states; may be null
  comm::Communicator* dp = nullptr;  ///< with Scope::global, those with the group's other rows
};

struct Routed {
  std::shared_ptr<const Decision> decision;
  autograd::Var weights;  ///< [groups, K], of the chosen experts; undefined while decoding
};

/// Scores x W [n, L] of the states x [n, d] by the gate W [d, L], in f32; each group's decision
/// from them. Gradients of the weights and of the balance term reach x and W. All tensor ranks
/// decide by the sums of the first one. Collective over the deciders unless `replay` is given: then
/// its experts and weights are taken again, whatever the scores say now. With `deciders.dp` there
/// is one group, and the backward pass is collective over them too.
Routed route(autograd::Tape* tape, const Rule& rule, const autograd::Var& x,
             const autograd::Var& gate, const Groups& groups, const Deciders& deciders,
             const BalanceGradient& balance, std::shared_ptr<const Decision> replay = nullptr);

/// The term L sum_i f_i P_i of a gate whose `tokens` picked K experts each, and its gradient by the
/// sums of softmax: f_i is the share of the picks that fell on expert i (no gradient), P_i the mean
/// softmax. `tokens` and `picks` may be sums over more ranks than `probs`; the values then add up.
struct Balance {
  double value = 0;
  std::vector<double> gradient;  ///< [L]
};
Balance balance_of(const double* picks, const double* probs, int experts, double tokens, int top_k);

}  // namespace fathom::methods::routing
