#include "kernels/mixture.h"

#include "kernels/math.h"
#include "kernels/rows.h"

namespace fathom::kernels {
namespace {

void check_parts(const Tensor& x, const Tensor& weights, std::int64_t part, const Tensor& y) {
  FATHOM_CHECK(x.contiguous() && y.contiguous() && weights.contiguous() && x.shape() == y.shape() &&
                   weights.rows() == x.rows() && part >= 0 && part < weights.columns(),
               "part ", part, " of weights ", to_string(weights.shape()), " for ",
               to_string(x.shape()), " and ", to_string(y.shape()));
}

}  // namespace

void topk_softmax(const Tensor& scores, std::int64_t kept, const Tensor& weights) {
  const std::int64_t k = scores.columns();
  FATHOM_CHECK(scores.contiguous() && weights.contiguous() && weights.shape() == scores.shape() &&
                   kept >= 1 && kept <= k,
               "the ", kept, " largest of ", to_string(scores.shape()));
  const float* in = scores.ptr<float>();
  float* out = weights.ptr<float>();
  for_each_row(
      scores.device(), scores.rows(), k * k, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float* s = in + r * k;
        float* w = out + r * k;
        const float max = row.max(k, [&](std::int64_t j) { return s[j]; });
        row.each(k, [&](std::int64_t j) {
          std::int64_t before = 0;
          for (std::int64_t i = 0; i < k; ++i)
            before += s[i] > s[j] || (s[i] == s[j] && i < j) ? 1 : 0;
          w[j] = before < kept ? exp_f(s[j] - max) : 0.0f;
        });
        const float sum = row.sum(k, [&](std::int64_t j) { return w[j]; });
        row.each(k, [&](std::int64_t j) { w[j] /= sum; });
      });
}

void topk_softmax_backward(const Tensor& weights, const Tensor& dweights, const Tensor& dscores,
                           bool accumulate) {
  const std::int64_t k = weights.columns();
  FATHOM_CHECK(weights.contiguous() && dweights.contiguous() && dscores.contiguous() &&
                   dweights.shape() == weights.shape() && dscores.shape() == weights.shape(),
               "softmax of ", to_string(weights.shape()));
  const float *pw = weights.ptr<float>(), *pd = dweights.ptr<float>();
  float* out = dscores.ptr<float>();
  const float keep = accumulate ? 1.0f : 0.0f;
  for_each_row(
      weights.device(), weights.rows(), k, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float *w = pw + r * k, *d = pd + r * k;
        float* target = out + r * k;
        const float mean = row.sum(k, [&](std::int64_t j) { return w[j] * d[j]; });
        row.each(k, [&](std::int64_t j) {
          const float before = keep != 0.0f ? target[j] : 0.0f;
          target[j] = before + w[j] * (d[j] - mean);
        });
      });
}

void weigh_rows(const Tensor& x, const Tensor& weights, std::int64_t part, const Tensor& y,
                bool accumulate) {
  check_parts(x, weights, part, y);
  const std::int64_t n = x.columns(), k = weights.columns();
  const float *px = x.ptr<float>(), *pw = weights.ptr<float>();
  float* py = y.ptr<float>();
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float* in = px + r * n;
        float* out = py + r * n;
        const float w = pw[r * k + part];
        if (accumulate)
          row.each(n, [&](std::int64_t c) { out[c] += w * in[c]; });
        else
          row.each(n, [&](std::int64_t c) { out[c] = w * in[c]; });
      });
}

void row_dots(const Tensor& x, const Tensor& y, const Tensor& dots, std::int64_t part) {
  check_parts(x, dots, part, y);
  const std::int64_t n = x.columns(), k = dots.columns();
  const float *px = x.ptr<float>(), *py = y.ptr<float>();
  float* out = dots.ptr<float>();
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float *a = px + r * n, *b = py + r * n;
        const float dot = row.sum(n, [&](std::int64_t c) { return a[c] * b[c]; });
        row.each(1, [&](std::int64_t) { out[r * k + part] = dot; });
      });
}

}  // namespace fathom::kernels
