#pragma once

#include "core/tensor.h"

namespace fathom::kernels {

enum class Activation {
  gelu_tanh,  ///< x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), "gelu_new"
  gelu_erf,   ///< x/2 (1 + erf(x / sqrt 2)), "gelu"
  relu,
  silu,  ///< x sigmoid(x)
};

/// y = act(x + bias); bias may be undefined.
void activation_forward(Activation kind, const Tensor& x, const Tensor& bias, const Tensor& y);

/// dx = dy act'(x + bias). dx may be dy's own memory.
void activation_backward(Activation kind, const Tensor& x, const Tensor& bias, const Tensor& dy,
                         const Tensor& dx);

/// y [n, f] = act(gate) * up for x = [gate | up] of [n, 2 f] (SwiGLU when act is silu).
void gated_forward(Activation kind, const Tensor& x, const Tensor& y);

/// dx [n, 2 f] from dy [n, f].
void gated_backward(Activation kind, const Tensor& x, const Tensor& dy, const Tensor& dx);

}  // namespace fathom::kernels
