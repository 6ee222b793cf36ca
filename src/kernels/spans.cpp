#include "kernels/spans.h"

#include <cmath>

#include "kernels/math.h"
#include "kernels/rows.h"

namespace fathom::kernels {
namespace {

// A divisor for sums that are 0 only where everything they divide is 0 as well.
constexpr float kTiny = 1e-30f;

FATHOM_HOST_DEVICE inline float at_least(float value, float least) {
  return value > least ? value : least;
}

// What a row contributes to the mean over a span.
FATHOM_HOST_DEVICE inline float share_of(float weight, float mass, std::int32_t length) {
  return mass > kTiny ? weight / mass : 1.0f / static_cast<float>(length);
}

}  // namespace

void normalise_incidences(const Tensor& importance, const Tensor& counts, const Tensor& starts,
                          const Tensor& weights) {
  FATHOM_CHECK(
      importance.elements() == counts.elements() && importance.elements() == weights.elements(),
      "importance ", to_string(importance.shape()), " of ", to_string(counts.shape()));
  const float* from = importance.ptr<float>();
  const std::int32_t *count = counts.ptr<std::int32_t>(), *start = starts.ptr<std::int32_t>();
  float* to = weights.ptr<float>();
  const std::int64_t sequences = starts.elements() - 1;
  for_each_row(
      importance.device(), sequences, importance.elements(),
      FATHOM_BODY(const Row& row, std::int64_t s) {
        const std::int64_t begin = start[s], rows = start[s + 1] - begin;
        const float total = row.sum(rows, [&](std::int64_t i) {
          return static_cast<float>(count[begin + i]) * from[begin + i];
        });
        const float share = 1.0f / at_least(total, kTiny);
        row.each(rows, [&](std::int64_t i) { to[begin + i] = from[begin + i] * share; });
      });
}

void span_mass(const Tensor& weights, const Tensor& spans, const Tensor& mass) {
  const float* weight = weights.ptr<float>();
  const std::int32_t* bound = spans.ptr<std::int32_t>();
  float* out = mass.ptr<float>();
  for_each_row(
      weights.device(), spans.rows(), 8, FATHOM_BODY(const Row& row, std::int64_t i) {
        const std::int64_t begin = bound[2 * i];
        const float sum =
            row.sum(bound[2 * i + 1] - begin, [&](std::int64_t t) { return weight[begin + t]; });
        row.each(1, [&](std::int64_t) { out[i] = sum; });
      });
}

void pair_mass(const Tensor& mass, const Tensor& first, const Tensor& pairs) {
  const float* all = mass.ptr<float>();
  const std::int32_t* begins = first.ptr<std::int32_t>();
  float* out = pairs.ptr<float>();
  for_each_row(
      mass.device(), pairs.elements(), mass.elements() * 64,
      FATHOM_BODY(const Row& row, std::int64_t s) {
        const float* w = all + begins[s];
        const std::int64_t m = begins[s + 1] - begins[s];
        float total = 0.0f;
        // Not (sum w)^2 - sum w^2, of which nothing would be left when one span has all the mass.
        for (std::int64_t i = 0; i < m; ++i)
          total += w[i] * row.sum(m, [&](std::int64_t j) { return j == i ? 0.0f : w[j]; });
        row.each(1, [&](std::int64_t) { out[s] = total; });
      });
}

void invert_mass(const Tensor& x, float least, float share) {
  float* values = x.ptr<float>();
  const std::int64_t n = x.elements();
  for_each_row(
      x.device(), 1, n, FATHOM_BODY(const Row& row, std::int64_t) {
        const float sum = row.sum(n, [&](std::int64_t s) { return values[s]; });
        row.each(n, [&](std::int64_t s) {
          const float divisor = share > 0.0f ? sum : values[s];
          values[s] = (share > 0.0f ? share : 1.0f) / (divisor > least ? divisor : least);
        });
      });
}

void span_units(const Tensor& states, const Tensor& weights, const Tensor& mass,
                const Tensor& spans, const Tensor& unit, const Tensor& norms) {
  FATHOM_CHECK(unit.rows() == spans.rows() && unit.columns() == states.columns(), "means of ",
               to_string(states.shape()), " into ", to_string(unit.shape()));
  const float *h = states.ptr<float>(), *weight = weights.ptr<float>(), *total = mass.ptr<float>();
  const std::int32_t* bound = spans.ptr<std::int32_t>();
  float *units = unit.ptr<float>(), *lengths = norms.ptr<float>();
  const std::int64_t n = states.columns(), stride = states.row_stride();
  for_each_row(
      states.device(), spans.rows(), n, FATHOM_BODY(const Row& row, std::int64_t i) {
        float* u = units + i * n;
        const std::int32_t begin = bound[2 * i], end = bound[2 * i + 1];
        row.each(n, [&](std::int64_t c) { u[c] = 0.0f; });
        for (std::int64_t t = begin; t < end; ++t) {
          const float share = share_of(weight[t], total[i], end - begin);
          row.each(n, [&](std::int64_t c) { u[c] += share * h[t * stride + c]; });
        }
        row.sync();
        const float norm =
            at_least(sqrtf(row.sum(n, [&](std::int64_t c) { return u[c] * u[c]; })), kCosineEps);
        row.each(n, [&](std::int64_t c) { u[c] /= norm; });
        row.each(1, [&](std::int64_t) { lengths[i] = norm; });
      });
}

void similarity_loss(const Tensor& student, const Tensor& teacher, const Tensor& mass,
                     const Tensor& scale, float slope, const Tensor& values) {
  FATHOM_CHECK(student.shape() == teacher.shape() && student.rows() == mass.elements(), "cosines ",
               to_string(student.shape()), " against ", to_string(teacher.shape()));
  float *s = student.ptr<float>(), *out = values.ptr<float>();
  const float *t = teacher.ptr<float>(), *w = mass.ptr<float>(),
              *factor_of_all = scale.ptr<float>();
  const std::int64_t m = student.rows();
  for_each_row(
      student.device(), m, m, FATHOM_BODY(const Row& row, std::int64_t i) {
        float* mine = s + i * m;
        const float* theirs = t + i * m;
        const float value = row.sum(m, [&](std::int64_t j) {
          const float gap = j == i ? 0.0f : mine[j] - theirs[j];
          return w[j] * gap * gap;
        });
        row.each(1, [&](std::int64_t) { out[i] = factor_of_all[0] * w[i] * value; });
        if (slope == 0.0f) return;
        // A pair stands twice in the sum, and its square gives another factor of two.
        const float factor = 4.0f * slope * factor_of_all[0] * w[i];
        row.each(m, [&](std::int64_t j) {
          mine[j] = j == i ? 0.0f : factor * w[j] * (mine[j] - theirs[j]);
        });
      });
}

void span_units_backward(const Tensor& unit, const Tensor& norms, const Tensor& gradient) {
  const float *units = unit.ptr<float>(), *lengths = norms.ptr<float>();
  float* g = gradient.ptr<float>();
  const std::int64_t n = unit.columns();
  for_each_row(
      unit.device(), unit.rows(), n, FATHOM_BODY(const Row& row, std::int64_t i) {
        const float* u = units + i * n;
        float* out = g + i * n;
        const float along = row.sum(n, [&](std::int64_t c) { return u[c] * out[c]; });
        // A vector that counts as longer than it is: the divisor does not depend on it.
        const float turn = lengths[i] > kCosineEps ? along : 0.0f;
        const float norm = lengths[i];
        row.each(n, [&](std::int64_t c) { out[c] = (out[c] - turn * u[c]) / norm; });
      });
}

void span_means_backward(const Tensor& gradient, const Tensor& weights, const Tensor& mass,
                         const Tensor& spans, const Coverage& coverage, std::int64_t first_span,
                         const Tensor& dstates) {
  const float *g = gradient.ptr<float>(), *weight = weights.ptr<float>(),
              *total = mass.ptr<float>();
  const std::int32_t *index = coverage.rows.ptr<std::int32_t>(),
                     *begins = coverage.begin.ptr<std::int32_t>(),
                     *holders = coverage.spans.ptr<std::int32_t>(),
                     *bound = spans.ptr<std::int32_t>();
  float* out = dstates.ptr<float>();
  const std::int64_t n = dstates.columns();
  for_each_row(
      dstates.device(), coverage.rows.elements(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        float* target = out + index[r] * n;
        for (std::int64_t k = begins[r]; k < begins[r + 1]; ++k) {
          const std::int64_t i = holders[k] - first_span;
          const float share = share_of(weight[index[r]], total[i], bound[2 * i + 1] - bound[2 * i]);
          row.each(n, [&](std::int64_t c) { target[c] += share * g[i * n + c]; });
        }
      });
}

void projected_cosine_loss(const Tensor& y, const Tensor& bias, const Tensor& teacher,
                           const Tensor& rows, const Tensor& weights, const Tensor& counts,
                           float slope, const Tensor& values) {
  FATHOM_CHECK(y.columns() == teacher.columns() && bias.elements() == y.columns(), "projection ",
               to_string(y.shape()), " against ", to_string(teacher.shape()));
  float *projected = y.ptr<float>(), *out = values.ptr<float>();
  const float *b = bias.ptr<float>(), *h = teacher.ptr<float>(), *weight = weights.ptr<float>();
  const std::int32_t *index = rows.ptr<std::int32_t>(), *count = counts.ptr<std::int32_t>();
  const std::int64_t n = y.columns(), stride = teacher.row_stride();
  for_each_row(
      y.device(), rows.elements(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        float* p = projected + r * n;
        const float* t = h + index[r] * stride;
        const float share = weight[index[r]] * static_cast<float>(count[index[r]]);
        row.each(n, [&](std::int64_t c) { p[c] += b[c]; });
        row.sync();
        const float dot = row.sum(n, [&](std::int64_t c) { return p[c] * t[c]; });
        const float own = sqrtf(row.sum(n, [&](std::int64_t c) { return p[c] * p[c]; }));
        const float other = sqrtf(row.sum(n, [&](std::int64_t c) { return t[c] * t[c]; }));
        const float p_norm = at_least(own, kCosineEps), t_norm = at_least(other, kCosineEps);
        const float inverse = 1.0f / (p_norm * t_norm), cosine = dot * inverse;
        row.each(1, [&](std::int64_t) { out[r] = share * (1.0f - cosine); });
        if (slope == 0.0f) return;
        const float pull = -slope * share * inverse;
        const float turn = own > kCosineEps ? slope * share * cosine / (own * own) : 0.0f;
        row.each(n, [&](std::int64_t c) { p[c] = pull * t[c] + turn * p[c]; });
      });
}

}  // namespace fathom::kernels
