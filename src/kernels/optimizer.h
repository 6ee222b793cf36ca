#pragma once

#include "core/tensor.h"

namespace fathom::kernels {

/// One AdamW update (Loshchilov & Hutter, 2019) of a parameter, in place:
///   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
///   w = w (1 - lr decay) - lr (m / c1) / (sqrt(v / c2) + eps),
/// with g = gradient * gradient_scale and c1, c2 the bias corrections 1 - b^step. The gradient is
/// set to zero on the way.
struct AdamW {
  float lr = 0, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weight_decay = 0;
  float correction1 = 1, correction2 = 1, gradient_scale = 1;
};
void adamw(const AdamW& options, const Tensor& weight, const Tensor& gradient,
           const Tensor& first_moment, const Tensor& second_moment);

}  // namespace fathom::kernels
