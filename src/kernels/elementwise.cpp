#include "kernels/elementwise.h"

#include "kernels/row_groups.h"

namespace fathom::kernels {
namespace {

void check_same(const Tensor& a, const Tensor& b) {
  FATHOM_CHECK(a.rows() == b.rows() && a.columns() == b.columns(), to_string(a.shape()),
               " against ", to_string(b.shape()));
}

}  // namespace

void fill(const Tensor& x, float value) {
  FATHOM_CHECK(x.contiguous() && x.dtype() == DType::f32, "fill takes contiguous f32");
  float* p = x.ptr<float>();
  for_each_element(
      x.device(), x.elements(), FATHOM_BODY(std::int64_t i) { p[i] = value; });
}

void copy(const Tensor& x, const Tensor& y) {
  check_same(x, y);
  const float* from = x.ptr<float>();
  float* to = y.ptr<float>();
  const std::int64_t n = x.columns(), from_stride = x.row_stride(), to_stride = y.row_stride();
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        row.each(n, [&](std::int64_t i) { to[r * to_stride + i] = from[r * from_stride + i]; });
      });
}

void accumulate(const Tensor& x, const Tensor& y) {
  check_same(x, y);
  const float* from = x.ptr<float>();
  float* to = y.ptr<float>();
  if (x.contiguous() && y.contiguous()) {
    for_each_element(
        x.device(), x.elements(), FATHOM_BODY(std::int64_t i) { to[i] += from[i]; });
    return;
  }
  const std::int64_t n = x.columns(), from_stride = x.row_stride(), to_stride = y.row_stride();
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        row.each(n, [&](std::int64_t i) { to[r * to_stride + i] += from[r * from_stride + i]; });
      });
}

void scale(const Tensor& x, float factor) {
  FATHOM_CHECK(x.contiguous(), "scale takes a contiguous tensor");
  float* p = x.ptr<float>();
  for_each_element(
      x.device(), x.elements(), FATHOM_BODY(std::int64_t i) { p[i] *= factor; });
}

void add_bias(const Tensor& x, const Tensor& bias) {
  FATHOM_CHECK(bias.elements() == x.columns(), "bias ", to_string(bias.shape()), " for ",
               to_string(x.shape()));
  float* p = x.ptr<float>();
  const float* b = bias.ptr<float>();
  const std::int64_t n = x.columns(), stride = x.row_stride();
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        row.each(n, [&](std::int64_t i) { p[r * stride + i] += b[i]; });
      });
}

void accumulate_column_sums(const Tensor& x, const Tensor& sums) {
  const std::int64_t rows = x.rows(), n = x.columns(), stride = x.row_stride();
  FATHOM_CHECK(sums.elements() == n, "column sums of ", to_string(x.shape()), " into ",
               to_string(sums.shape()));
  if (rows == 0) return;
  const float* p = x.ptr<float>();
  const Tensor partial = sum_row_groups(
      x.device(), rows, n,
      FATHOM_BODY(std::int64_t r, std::int64_t i) { return p[r * stride + i]; });
  const std::int64_t groups = partial.rows();
  const float* part = partial.ptr<float>();
  float* out = sums.ptr<float>();
  for_each_element(
      x.device(), n, FATHOM_BODY(std::int64_t i) {
        float total = part[i];
        for (std::int64_t g = 1; g < groups; ++g) total += part[g * n + i];
        out[i] += total;
      });
}

void gather_rows(const Tensor& x, const Tensor& rows, const Tensor& out) {
  const float* from = x.ptr<float>();
  const std::int32_t* index = rows.ptr<std::int32_t>();
  float* to = out.ptr<float>();
  const std::int64_t n = x.columns(), stride = x.row_stride();
  FATHOM_CHECK(out.rows() == rows.elements() && out.columns() == n && out.contiguous(),
               "gather of ", to_string(x.shape()), " into ", to_string(out.shape()));
  for_each_row(
      x.device(), out.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float* source = from + index[r] * stride;
        row.each(n, [&](std::int64_t i) { to[r * n + i] = source[i]; });
      });
}

void scatter_rows(const Tensor& values, const Tensor& rows, const Tensor& x) {
  const float* from = values.ptr<float>();
  const std::int32_t* index = rows.ptr<std::int32_t>();
  float* to = x.ptr<float>();
  const std::int64_t n = x.columns(), stride = x.row_stride(), from_stride = values.row_stride();
  FATHOM_CHECK(values.rows() == rows.elements() && values.columns() == n, "scatter of ",
               to_string(values.shape()), " into ", to_string(x.shape()));
  for_each_row(
      x.device(), values.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        float* target = to + index[r] * stride;
        row.each(n, [&](std::int64_t i) { target[i] = from[r * from_stride + i]; });
      });
}

void accumulate_rows(const Tensor& values, const Tensor& rows, const Tensor& x) {
  const float* from = values.ptr<float>();
  const std::int32_t* index = rows.ptr<std::int32_t>();
  float* to = x.ptr<float>();
  const std::int64_t n = x.columns(), stride = x.row_stride(), from_stride = values.row_stride();
  FATHOM_CHECK(values.rows() == rows.elements() && values.columns() == n, "scatter of ",
               to_string(values.shape()), " into ", to_string(x.shape()));
  for_each_row(
      x.device(), values.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        float* target = to + index[r] * stride;
        row.each(n, [&](std::int64_t i) { target[i] += from[r * from_stride + i]; });
      });
}

namespace {

// What one element is multiplied by: 0 or 1 / (1 - probability).
struct DropoutMask {
  explicit DropoutMask(const Dropout& dropout)
      : probability(dropout.probability),
        keep_scale(1.0f / (1.0f - dropout.probability)),
        key0(dropout.key0),
        key1(dropout.key1),
        site(dropout.site),
        first_column(dropout.first_column),
        positions(dropout.probability > 0 ? dropout.positions.ptr<std::int32_t>() : nullptr),
        samples(dropout.probability > 0 ? dropout.samples.ptr<std::int32_t>() : nullptr) {}

  FATHOM_HOST_DEVICE float operator()(std::int64_t r, std::int64_t i) const {
    const std::int64_t column = first_column + i;
    const Philox words = philox(key0, key1, static_cast<std::uint32_t>(column / 4),
                                static_cast<std::uint32_t>(positions[r]),
                                static_cast<std::uint32_t>(samples[r]), site);
    return uniform01(words.v[column % 4]) < probability ? 0.0f : keep_scale;
  }

  float probability, keep_scale;
  std::uint32_t key0, key1, site;
  std::int64_t first_column;
  const std::int32_t* positions;
  const std::int32_t* samples;
};

}  // namespace

void residual_forward(const Tensor& residual, const Tensor& delta, const Tensor& bias,
                      const Dropout& dropout, const Tensor& y) {
  check_same(delta, y);
  const float* x = residual.defined() ? residual.ptr<float>() : nullptr;
  const float* d = delta.ptr<float>();
  const float* b = bias.defined() ? bias.ptr<float>() : nullptr;
  float* out = y.ptr<float>();
  const std::int64_t n = y.columns();
  const DropoutMask mask(dropout);
  const bool drop = dropout.probability > 0;
  FATHOM_CHECK(delta.contiguous() && y.contiguous(), "residual_forward takes contiguous tensors");
  for_each_row(
      y.device(), y.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const std::int64_t at = r * n;
        if (!drop && b == nullptr && x != nullptr) {
          row.each(n, [&](std::int64_t i) { out[at + i] = x[at + i] + d[at + i]; });
        } else if (!drop && x != nullptr) {
          row.each(n, [&](std::int64_t i) { out[at + i] = x[at + i] + (d[at + i] + b[i]); });
        } else {
          row.each(n, [&](std::int64_t i) {
            float value = b == nullptr ? d[at + i] : d[at + i] + b[i];
            if (drop) value *= mask(r, i);
            out[at + i] = x == nullptr ? value : x[at + i] + value;
          });
        }
      });
}

void dropout_backward(const Tensor& dy, const Dropout& dropout, const Tensor& ddelta) {
  check_same(dy, ddelta);
  const float* g = dy.ptr<float>();
  float* out = ddelta.ptr<float>();
  const std::int64_t n = dy.columns();
  const DropoutMask mask(dropout);
  for_each_row(
      dy.device(), dy.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        row.each(n, [&](std::int64_t i) { out[r * n + i] = g[r * n + i] * mask(r, i); });
      });
}

namespace {

std::int64_t partial_sums(const Tensor& x) {
  return (x.elements() + kElementRow - 1) / kElementRow;
}

void partial_sums_of_squares(const Tensor& x, const Tensor& partial) {
  FATHOM_CHECK(x.contiguous(), "sum_of_squares takes a contiguous tensor");
  const std::int64_t n = x.elements(), rows = partial.elements();
  const float* p = x.ptr<float>();
  float* part = partial.ptr<float>();
  for_each_row(
      x.device(), rows, kElementRow, FATHOM_BODY(const Row& row, std::int64_t r) {
        const std::int64_t begin = r * kElementRow;
        const std::int64_t count = n - begin < kElementRow ? n - begin : kElementRow;
        const float sum =
            row.sum(count, [&](std::int64_t i) { return p[begin + i] * p[begin + i]; });
        row.each(1, [&](std::int64_t) { part[r] = sum; });
      });
}

}  // namespace

double sum_of_squares(std::span<const Tensor> tensors) {
  std::int64_t rows = 0;
  for (const Tensor& x : tensors) rows += partial_sums(x);
  if (rows == 0) return 0;
  const Tensor partial = Tensor::empty(tensors.front().device(), {rows});
  std::int64_t at = 0;
  for (const Tensor& x : tensors) {
    partial_sums_of_squares(x, partial.slice_rows(at, partial_sums(x)));
    at += partial_sums(x);
  }
  double total = 0;
  for (float value : to_host(partial)) total += value;
  return total;
}

void convert(const Tensor& x, const Tensor& y) {
  check_same(x, y);
  const std::int64_t n = x.columns(), from_stride = x.row_stride(), to_stride = y.row_stride();
  if (y.dtype() == DType::bf16) {
    const float* from = x.ptr<float>();
    bf16* to = y.ptr<bf16>();
    for_each_row(
        x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
          row.each(n, [&](std::int64_t i) {
            to[r * to_stride + i] = to_bf16(from[r * from_stride + i]);
          });
        });
  } else {
    const bf16* from = x.ptr<bf16>();
    float* to = y.ptr<float>();
    for_each_row(
        x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
          row.each(n, [&](std::int64_t i) {
            to[r * to_stride + i] = to_float(from[r * from_stride + i]);
          });
        });
  }
}

}  // namespace fathom::kernels
