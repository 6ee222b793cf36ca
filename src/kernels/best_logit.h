#pragma once

#include "core/tensor.h"

namespace fathom::kernels {

/// What best_logits() tells of a row of logits.
enum BestLogit : int {
  kLargest,       ///< the largest logit
  kLargestIndex,  ///< its column, the lowest of equals; -1 if there is none
  kExpSum,        ///< the sum of exp(logit - largest): NaN if any logit is NaN or +infinity
  kBestLogits
};

/// best [n, kBestLogits] of logits [n, v], row strides honoured. Logits of -infinity never count.
/// v is at most 2^24, so that a column is exact as a float. A row without a finite logit (or v = 0)
/// has the sum 0.
void best_logits(const Tensor& logits, const Tensor& best);

}  // namespace fathom::kernels
