#pragma once

#include "core/tensor.h"

// Kernels over the columns (outputs) of a matrix, for adapters that scale them. Matrices are f32
// unless said otherwise and may be ranges of columns of wider ones.

namespace fathom::kernels {

/// x[r, c] *= factors[c].
void scale_columns(const Tensor& x, const Tensor& factors);

/// sums[c] += scales[c] times the sum of x[r, c] y[r, c] over r; scales may be undefined. The order
/// of the sum depends on the shape alone.
void accumulate_column_dots(const Tensor& x, const Tensor& y, const Tensor& scales,
                            const Tensor& sums);

/// y[r, c] += factor * x[r, c].
void accumulate_scaled(const Tensor& x, float factor, const Tensor& y);

/// squares[r] = the sum of x[r, c]^2 over c.
void row_squares(const Tensor& x, const Tensor& squares);

/// sums[r] = factor times the sum of x[r, c] over c.
void row_sums(const Tensor& x, float factor, const Tensor& sums);

/// squares[c] = the sum of x[r, c]^2 over r.
void column_squares(const Tensor& x, const Tensor& squares);

/// inverse[i] = 1 / sqrt(squares[i]), factor[i] = magnitude[i] * inverse[i].
void magnitude_factors(const Tensor& magnitude, const Tensor& squares, const Tensor& inverse,
                       const Tensor& factor);

/// root[i] = sqrt(squares[i]).
void square_root(const Tensor& squares, const Tensor& root);

}  // namespace fathom::kernels
