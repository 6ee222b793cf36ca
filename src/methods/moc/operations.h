#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "methods/moc/decision.h"

// The differentiable operations of mixture of control. n tokens, L experts, d the model's width.

namespace fathom::methods::moc {

/// What a gate decided on one micro-batch at one site.
struct Decision {
  std::vector<Choice> groups;        ///< by group
  std::vector<double> picks, probs;  ///< [L] sums over all counted tokens: K best, and softmax
};

/// Sums of softmax [1, L] over all sites of a gate have one gradient for all of them; it lies in
/// these columns of the slot when the backward pass begins.
struct BalanceGradient {
  std::shared_ptr<autograd::GradSlot> slot;  ///< null if there is no balance term
  std::int64_t first_column = 0;
};

struct Routed {
  std::shared_ptr<const Decision> decision;
  autograd::Var weights;  ///< [groups, K], of the chosen experts; undefined while decoding
};

/// Scores x W [n, L] of the un-normalised states x [n, d] by the gate W [d, L], in f32; each
/// group's decision from them. Gradients of the weights and of the balance term reach x and W. All
/// tensor ranks decide by the sums of the first one (`tp` may be null); collective over them unless
/// `replay` is given: then its experts and weights are taken again, whatever the scores say now.
Routed route(autograd::Tape* tape, const Spec& spec, const autograd::Var& x,
             const autograd::Var& gate, const Groups& groups, comm::Communicator* tp,
             const BalanceGradient& balance, std::shared_ptr<const Decision> replay = nullptr);

/// The low-rank controls of all layers at one kind of site, one below the other: expert k has rows
/// [rank * slot, ...) of a [.., d] and rows [d * slot, ...) of b [.., rank].
struct Experts {
  autograd::Var a, b;
  std::int64_t rank = 0;
  std::vector<std::int64_t> slots;  ///< [L]
};

/// y += alpha B_t A_t x + (1 - alpha) sum over the group's choices of weight B_k A_k x, in place; y
/// must be fresh, and what follows goes on with the Var returned. Keeps A x of the experts used.
autograd::Var control(autograd::Tape* tape, const autograd::Var& y, const autograd::Var& x,
                      const Experts& experts, int own, float alpha, const Groups& groups,
                      const Routed& routed);

}  // namespace fathom::methods::moc
