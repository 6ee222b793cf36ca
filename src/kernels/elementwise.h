#pragma once

#include <span>

#include "core/tensor.h"

namespace fathom::kernels {

/// x = value, everywhere.
void fill(const Tensor& x, float value);

/// y = x for contiguous or column-sliced f32 matrices of one shape.
void copy(const Tensor& x, const Tensor& y);

/// y += x.
void accumulate(const Tensor& x, const Tensor& y);

/// x *= factor.
void scale(const Tensor& x, float factor);

/// x[r, c] += bias[c].
void add_bias(const Tensor& x, const Tensor& bias);

/// sums[c] += the sum of x[r, c] over r. The order of the sum depends on the shape alone.
void accumulate_column_sums(const Tensor& x, const Tensor& sums);

/// out[i, :] = x[rows[i], :].
void gather_rows(const Tensor& x, const Tensor& rows, const Tensor& out);

/// x[rows[i], :] = values[i, :]; no row may be named twice.
void scatter_rows(const Tensor& values, const Tensor& rows, const Tensor& x);

/// x[rows[i], :] += values[i, :]; no row may be named twice.
void accumulate_rows(const Tensor& values, const Tensor& rows, const Tensor& x);

/// Dropout as a pure function of where a number stands in the model and the data set: the element
/// (token, column) survives by the word philox(key, {column / 4, position, sample, site})[column %
/// 4].
struct Dropout {
  float probability = 0.0f;  ///< 0 = off
  std::uint32_t key0 = 0, key1 = 0;
  std::uint32_t site = 0;
  Tensor positions, samples;      ///< i32 [n]
  std::int64_t first_column = 0;  ///< of the tensor in the whole one, of which it may be a part
};

/// y = residual + dropout(delta + bias); bias and residual may be undefined. y may be residual's
/// own memory.
void residual_forward(const Tensor& residual, const Tensor& delta, const Tensor& bias,
                      const Dropout& dropout, const Tensor& y);

/// ddelta = dropout'(dy): the same elements survive.
void dropout_backward(const Tensor& dy, const Dropout& dropout, const Tensor& ddelta);

/// The sum of squares of all elements of all tensors, in double over partial sums of 4,096
/// elements. Waits for the device once.
double sum_of_squares(std::span<const Tensor> tensors);
inline double sum_of_squares(const Tensor& x) {
  return sum_of_squares({&x, 1});
}

/// y = x rounded to bf16, or widened to f32.
void convert(const Tensor& x, const Tensor& y);

}  // namespace fathom::kernels
