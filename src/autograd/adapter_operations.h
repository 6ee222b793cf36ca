#pragma once

#include <vector>

#include "autograd/operations.h"

// What adapters do to the result of a frozen layer. All of these change y's values in place, so
// that an adapted layer needs no second copy of its output: y must be fresh, and what follows goes
// on with the Var returned. Columns of y are outputs of the layer; `first_column` says where a
// part of a fused layer begins.

namespace fathom::autograd {

/// y[r, c] += bias[c].
Var add_bias(Tape* tape, const Var& y, const Var& bias);

/// y[:, first_column + c] += factor * delta[:, c].
Var accumulate_columns(Tape* tape, const Var& y, const Var& delta, std::int64_t first_column,
                       float factor);

/// y[rows[i], :] += delta[i, :]; no row may be named twice.
Var accumulate_rows(Tape* tape, const Var& y, const Var& delta, const Tensor& rows);

/// y[:, first_column + c] *= magnitude[c] * inverse[c], inverse being a constant; `factor` is the
/// product magnitude * inverse. Keeps the columns as they were if the magnitude is trained.
Var scale_columns(Tape* tape, const Var& y, std::int64_t first_column, const Var& magnitude,
                  const Tensor& inverse, const Tensor& factor);

/// The outputs that one low-rank product adds to.
struct LowRankPart {
  Var b;                          ///< [outputs, rank]
  std::int64_t first_column = 0;  ///< of the outputs in y
  kernels::Dropout dropout;       ///< on the input, for this part
};

/// For each part p: y[:, columns of p] += scale * drop_p(x) A_p^T B_p^T. `a` [sum of ranks, in]
/// holds the parts' A one below the other, so that x is multiplied once. Keeps x A^T, and x unless
/// it can be made again or A is frozen.
Var low_rank_add(Tape* tape, const Var& y, const Var& x, const Var& a,
                 const std::vector<LowRankPart>& parts, float scale);

/// Rows of B that belong to a range of y's columns.
struct ProjectedRange {
  Tensor b;                       ///< [outputs, rank], frozen
  std::int64_t first_column = 0;  ///< of the range in y
};

/// y[:, columns] += lambda_b * (B (lambda_d * (A drop(x)))) with frozen a [rank, in] and B; the
/// ranges' outputs follow each other in lambda_b [sum of outputs]; lambda_d [rank]. Keeps x A^T
/// alone.
Var projected_add(Tape* tape, const Var& y, const Var& x, const Tensor& a, const Var& lambda_d,
                  const std::vector<ProjectedRange>& ranges, const Var& lambda_b,
                  const kernels::Dropout& dropout);

}  // namespace fathom::autograd
