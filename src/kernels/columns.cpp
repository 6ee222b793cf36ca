#include "kernels/columns.h"

#include "kernels/elementwise.h"
#include "kernels/math.h"
#include "kernels/row_groups.h"

namespace fathom::kernels {
namespace {

void check_vector(const Tensor& x, const Tensor& vector) {
  FATHOM_CHECK(vector.elements() == x.columns() && vector.contiguous(), "a vector ",
               to_string(vector.shape()), " for the columns of ", to_string(x.shape()));
}

void check_same(const Tensor& a, const Tensor& b) {
  FATHOM_CHECK(a.rows() == b.rows() && a.columns() == b.columns(), to_string(a.shape()),
               " against ", to_string(b.shape()));
}

}  // namespace

void scale_columns(const Tensor& x, const Tensor& factors) {
  check_vector(x, factors);
  float* p = x.ptr<float>();
  const float* f = factors.ptr<float>();
  const std::int64_t n = x.columns(), stride = x.row_stride();
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        row.each(n, [&](std::int64_t i) { p[r * stride + i] *= f[i]; });
      });
}

void accumulate_column_dots(const Tensor& x, const Tensor& y, const Tensor& scales,
                            const Tensor& sums) {
  check_same(x, y);
  check_vector(x, sums);
  const std::int64_t rows = x.rows(), n = x.columns();
  const std::int64_t x_stride = x.row_stride(), y_stride = y.row_stride();
  if (rows == 0) return;
  const float* a = x.ptr<float>();
  const float* b = y.ptr<float>();
  const Tensor partial = sum_row_groups(
      x.device(), rows, n, FATHOM_BODY(std::int64_t r, std::int64_t i) {
        return a[r * x_stride + i] * b[r * y_stride + i];
      });
  const std::int64_t groups = partial.rows();
  const float* part = partial.ptr<float>();
  float* out = sums.ptr<float>();
  const float* scale = scales.defined() ? scales.ptr<float>() : nullptr;
  for_each_element(
      x.device(), n, FATHOM_BODY(std::int64_t i) {
        float total = part[i];
        for (std::int64_t g = 1; g < groups; ++g) total += part[g * n + i];
        out[i] += scale == nullptr ? total : scale[i] * total;
      });
}

void accumulate_scaled(const Tensor& x, float factor, const Tensor& y) {
  check_same(x, y);
  const float* from = x.ptr<float>();
  float* to = y.ptr<float>();
  const std::int64_t n = x.columns(), from_stride = x.row_stride(), to_stride = y.row_stride();
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        row.each(n, [&](std::int64_t i) {
          to[r * to_stride + i] += factor * from[r * from_stride + i];
        });
      });
}

void row_squares(const Tensor& x, const Tensor& squares) {
  FATHOM_CHECK(squares.elements() == x.rows(), "row squares of ", to_string(x.shape()), " into ",
               to_string(squares.shape()));
  const float* p = x.ptr<float>();
  float* out = squares.ptr<float>();
  const std::int64_t n = x.columns(), stride = x.row_stride();
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float sum =
            row.sum(n, [&](std::int64_t i) { return p[r * stride + i] * p[r * stride + i]; });
        row.each(1, [&](std::int64_t) { out[r] = sum; });
      });
}

void row_sums(const Tensor& x, float factor, const Tensor& sums) {
  FATHOM_CHECK(sums.elements() == x.rows(), "row sums of ", to_string(x.shape()), " into ",
               to_string(sums.shape()));
  const float* p = x.ptr<float>();
  float* out = sums.ptr<float>();
  const std::int64_t n = x.columns(), stride = x.row_stride();
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float sum = row.sum(n, [&](std::int64_t i) { return p[r * stride + i]; });
        row.each(1, [&](std::int64_t) { out[r] = factor * sum; });
      });
}

void column_squares(const Tensor& x, const Tensor& squares) {
  fill(squares, 0.0f);
  accumulate_column_dots(x, x, {}, squares);
}

void magnitude_factors(const Tensor& magnitude, const Tensor& squares, const Tensor& inverse,
                       const Tensor& factor) {
  const float* m = magnitude.ptr<float>();
  const float* s = squares.ptr<float>();
  float* inv = inverse.ptr<float>();
  float* f = factor.ptr<float>();
  for_each_element(
      squares.device(), squares.elements(), FATHOM_BODY(std::int64_t i) {
        inv[i] = 1.0f / sqrtf(s[i]);
        f[i] = m[i] * inv[i];
      });
}

void square_root(const Tensor& squares, const Tensor& root) {
  const float* s = squares.ptr<float>();
  float* out = root.ptr<float>();
  for_each_element(
      squares.device(), squares.elements(), FATHOM_BODY(std::int64_t i) { out[i] = sqrtf(s[i]); });
}

}  // namespace fathom::kernels
