#pragma once

#include <cstdint>

#include "core/tensor.h"

// Mixtures of k matrices [n, d], in which every row has weights of its own, [n, k].

namespace fathom::kernels {

/// weights = the softmax over the `kept` largest scores of each row (of equal ones the first), 0
/// elsewhere. scores and weights [n, k].
void topk_softmax(const Tensor& scores, std::int64_t kept, const Tensor& weights);

/// dscores (= or +=) the gradient of topk_softmax: weights * (dweights - sum(weights * dweights)).
/// The choice of what is kept has none.
void topk_softmax_backward(const Tensor& weights, const Tensor& dweights, const Tensor& dscores,
                           bool accumulate);

/// y[r, :] (= or +=) weights[r, part] * x[r, :].
void weigh_rows(const Tensor& x, const Tensor& weights, std::int64_t part, const Tensor& y,
                bool accumulate);

/// dots[r, part] = the sum of x[r, c] y[r, c] over c.
void row_dots(const Tensor& x, const Tensor& y, const Tensor& dots, std::int64_t part);

}  // namespace fathom::kernels
