#pragma once

#include "core/tensor.h"

// Weighted means over spans of consecutive rows, the cosines between them, and the cosines of
// projected rows: what MTA's losses are made of. Rows are packed rows of a micro-batch; spans are
// i32 [m, 2], each [begin, end). Vectors shorter than kCosineEps count as that long in a cosine.

namespace fathom::kernels {

constexpr float kCosineEps = 1e-5f;

/// For each sequence, of rows [starts[s], starts[s + 1]): weights[t] = importance[t] / sum over its
/// rows of counts * importance. counts i32 [n] is the number of spans that hold a row.
void normalise_incidences(const Tensor& importance, const Tensor& counts, const Tensor& starts,
                          const Tensor& weights);

/// mass[i] = the sum of weights over span i.
void span_mass(const Tensor& weights, const Tensor& spans, const Tensor& mass);

/// pairs[s] = sum over i != j of mass[i] mass[j], for the spans [first[s], first[s + 1]) of each
/// sequence.
void pair_mass(const Tensor& mass, const Tensor& first, const Tensor& pairs);

/// x[s] = 1 / max(x[s], least); with a `share` above 0, share / max(sum of x, least) for every s.
void invert_mass(const Tensor& x, float least, float share);

/// The mean u_i of states [n, d] over each span, weighted: unit[i] = u_i / norms[i], with norms[i]
/// = max(|u_i|, kCosineEps). In a span without mass all rows weigh the same.
void span_units(const Tensor& states, const Tensor& weights, const Tensor& mass,
                const Tensor& spans, const Tensor& unit, const Tensor& norms);

/// values[i] = scale[0] mass[i] * sum over j != i of mass[j] (student[i, j] - teacher[i, j])^2 for
/// cosines [m, m]. If `slope` is not 0, the student's are replaced by slope times the gradient of
/// the sum of values with respect to them, [i, j] and [j, i] together.
void similarity_loss(const Tensor& student, const Tensor& teacher, const Tensor& mass,
                     const Tensor& scale, float slope, const Tensor& values);

/// gradient, with respect to unit vectors, becomes that with respect to the means.
void span_units_backward(const Tensor& unit, const Tensor& norms, const Tensor& gradient);

/// Which spans hold which rows: rows[r] is in spans[begin[r] .. begin[r + 1]).
struct Coverage {
  Tensor rows, begin, spans;  ///< i32
};

/// dstates += the gradient of the weighted means, given theirs [m, d]: mass, spans and gradient are
/// of the spans from number `first_span` on.
void span_means_backward(const Tensor& gradient, const Tensor& weights, const Tensor& mass,
                         const Tensor& spans, const Coverage& coverage, std::int64_t first_span,
                         const Tensor& dstates);

/// values[r] = weight (1 - cos(y_r + bias, teacher[rows[r]])) with weight = counts weights of that
/// row; y [R, d] is a projection of the student's rows. If `slope` is not 0, y is replaced by slope
/// times the gradient.
void projected_cosine_loss(const Tensor& y, const Tensor& bias, const Tensor& teacher,
                           const Tensor& rows, const Tensor& weights, const Tensor& counts,
                           float slope, const Tensor& values);

}  // namespace fathom::kernels
