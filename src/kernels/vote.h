#pragma once

#include "kernels/loss.h"

namespace fathom::kernels {

/// The mixture of k late layers' logits l_j, and how far the last layer is from each of the others,
/// in one pass over memory: for a vocabulary that is whole on this rank. With n rows of weights G
/// [n, k] and logits [(k + 1) n, v], of which the first n rows are the mixture's and the next n
/// those of l_0, and so on to l_{k-1}:
///   mixture[r, :] = sum over j of G[r, j] l_j[r, :]
///   results [(k - 1) n, kLossResults] of `loss` with l_j, j < k - 1, as the student and l_{k-1} as
///   its teacher; with `gradient`, the gradient replaces l_j. The last layer's logits stay.
/// The divergence must be the forward KL. labels are i32 [n], local to the vocabulary; k > 1.
/// Exponentials an entry with gradient: 4 (k - 1) at a temperature of 1.
void vote(const TokenLoss& loss, const Tensor& logits, const Tensor& weights, const Tensor& labels,
          const Tensor& results, bool gradient);

}  // namespace fathom::kernels
