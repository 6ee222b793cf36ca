#pragma once

#include "core/tensor.h"

namespace fathom::kernels {

/// Rotary position embedding, in place: in each head of x [n, heads * head_dim] (row stride
/// honoured) the pair (i, i + head_dim / 2) turns by the angle of position positions[r]. cosines
/// and sines are [max_positions, head_dim / 2]. `direction` 1 rotates, -1 rotates back, which is
/// the gradient.
void rotate(const Tensor& x, std::int64_t head_dim, const Tensor& positions, const Tensor& cosines,
            const Tensor& sines, float direction);

}  // namespace fathom::kernels
