#pragma once

#include <cstdint>
#include <vector>

#include "autograd/tape.h"

namespace fathom::autograd {

/// Softmax over the `kept` largest scores of each row, 0 elsewhere; see kernels/mixture.h.
Var topk_softmax(Tape* tape, const Var& scores, std::int64_t kept);

/// y[r, :] = sum over j of weights[r, j] parts[j][r, :]. Parts [n, d] of one shape; weights [n, k].
/// Keeps the weights, and the parts (unless they can be made again) where the weights are trained.
Var mixture(Tape* tape, const Var& weights, const std::vector<Var>& parts);

/// A run of such a sum's terms: y[r, :] = so_far[r, :] + sum over j of weights[r, first + j]
/// parts[j][r, :]; without a sum so far, if that is undefined. Keeps the same.
Var add_to_mixture(Tape* tape, const Var& so_far, const Var& weights, std::int64_t first,
                   const std::vector<Var>& parts);

}  // namespace fathom::autograd
