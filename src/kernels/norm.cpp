#include "kernels/norm.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/row_groups.h"

namespace fathom::kernels {
namespace {

void check(const Tensor& x, const Tensor& weight, const Tensor& y) {
  FATHOM_CHECK(x.contiguous() && y.contiguous() && x.shape() == y.shape() &&
                   weight.elements() == x.columns(),
               "norm of ", to_string(x.shape()), " by ", to_string(weight.shape()));
}

// dweight[c] += sum over rows of dy * (x - mean) * rstd.
void accumulate_weight_gradient(const Tensor& x, const Tensor& stats, const Tensor& dy,
                                const Tensor& dweight) {
  const std::int64_t rows = x.rows(), n = x.columns();
  if (rows == 0) return;
  const float *px = x.ptr<float>(), *ps = stats.ptr<float>(), *pg = dy.ptr<float>();
  const Tensor partial = sum_row_groups(
      x.device(), rows, n, FATHOM_BODY(std::int64_t r, std::int64_t i) {
        return pg[r * n + i] * ((px[r * n + i] - ps[2 * r]) * ps[2 * r + 1]);
      });
  accumulate_column_sums(partial, dweight);
}

}  // namespace

void norm_forward(NormKind kind, float eps, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, const Tensor& y, const Tensor& stats) {
  check(x, weight, y);
  const float *px = x.ptr<float>(), *w = weight.ptr<float>();
  const float* b = bias.defined() ? bias.ptr<float>() : nullptr;
  float *py = y.ptr<float>(), *ps = stats.ptr<float>();
  const std::int64_t n = x.columns();
  const bool layer = kind == NormKind::layer;
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float* in = px + r * n;
        float* out = py + r * n;
        const float count = static_cast<float>(n);
        const float mean = layer ? row.sum(n, [&](std::int64_t i) { return in[i]; }) / count : 0.0f;
        const float square = row.sum(n, [&](std::int64_t i) {
          const float centred = in[i] - mean;
          return centred * centred;
        });
        const float rstd = 1.0f / sqrtf(square / count + eps);
        if (b != nullptr) {
          row.each(n, [&](std::int64_t i) { out[i] = (in[i] - mean) * rstd * w[i] + b[i]; });
        } else {
          row.each(n, [&](std::int64_t i) { out[i] = (in[i] - mean) * rstd * w[i]; });
        }
        row.each(1, [&](std::int64_t) {
          ps[2 * r] = mean;
          ps[2 * r + 1] = rstd;
        });
      });
}

void norm_backward(NormKind kind, const Tensor& x, const Tensor& weight, const Tensor& stats,
                   const Tensor& dy, const Tensor& dx, bool accumulate_dx, const Tensor& dweight,
                   const Tensor& dbias) {
  if (dweight.defined()) accumulate_weight_gradient(x, stats, dy, dweight);
  if (dbias.defined()) accumulate_column_sums(dy, dbias);
  if (!dx.defined()) return;
  check(x, weight, dx);
  const float *px = x.ptr<float>(), *w = weight.ptr<float>(), *ps = stats.ptr<float>();
  const float* pg = dy.ptr<float>();
  float* out = dx.ptr<float>();
  const std::int64_t n = x.columns();
  const bool layer = kind == NormKind::layer;
  const float keep = accumulate_dx ? 1.0f : 0.0f;
  // With h = (x - mean) rstd and g = dy w: dx = rstd (g - mean(g) - h mean(g h)); rms drops
  // mean(g).
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float *in = px + r * n, *g = pg + r * n;
        float* target = out + r * n;
        const float mean = ps[2 * r], rstd = ps[2 * r + 1], count = static_cast<float>(n);
        const float gh = row.sum(n, [&](std::int64_t i) {
          return g[i] * w[i] * ((in[i] - mean) * rstd);
        }) / count;
        const float gm =
            layer ? row.sum(n, [&](std::int64_t i) { return g[i] * w[i]; }) / count : 0.0f;
        if (keep != 0.0f) {
          row.each(n, [&](std::int64_t i) {
            target[i] += rstd * (g[i] * w[i] - gm - (in[i] - mean) * rstd * gh);
          });
        } else {
          row.each(n, [&](std::int64_t i) {
            target[i] = rstd * (g[i] * w[i] - gm - (in[i] - mean) * rstd * gh);
          });
        }
      });
}

}  // namespace fathom::kernels
