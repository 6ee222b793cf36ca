#pragma once

#include "core/tensor.h"

namespace fathom::kernels {

enum class NormKind {
  layer,  ///< LayerNorm: (x - mean) / sqrt(var + eps) * weight + bias, var biased
  rms,    ///< RMSNorm: x / sqrt(mean(x^2) + eps) * weight
};

/// y = norm(x) over the columns of x [n, d]; weight [d]; bias [d], undefined for rms. stats [n, 2]
/// receives mean (0 for rms) and 1 / sqrt(...) of each row.
void norm_forward(NormKind kind, float eps, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, const Tensor& y, const Tensor& stats);

/// dx (= or +=, by `accumulate_dx`) from dy. dweight and dbias, where defined, are accumulated.
void norm_backward(NormKind kind, const Tensor& x, const Tensor& weight, const Tensor& stats,
                   const Tensor& dy, const Tensor& dx, bool accumulate_dx, const Tensor& dweight,
                   const Tensor& dbias);

}  // namespace fathom::kernels
