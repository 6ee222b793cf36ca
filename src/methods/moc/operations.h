#pragma once

#include <vector>

#include "methods/routing/route.h"

// The differentiable operation of mixture of control. n tokens, L experts, d the model's width.

namespace fathom::methods::moc {

using routing::Choice;
using routing::Decision;
using routing::Groups;
using routing::Routed;

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
