#include "kernels/gate.h"

#include "kernels/math.h"
#include "kernels/rows.h"

namespace fathom::kernels {

void gate_tokens(const Tensor& scores, const Tensor& counted, std::int64_t k, const Tensor& probs,
                 const Tensor& picks) {
  const std::int64_t n = scores.columns();
  FATHOM_CHECK(k >= 1 && k <= n && counted.elements() == scores.rows(), "the ", k, " best of ",
               to_string(scores.shape()));
  const float* ps = scores.ptr<float>();
  const std::int32_t* pc = counted.ptr<std::int32_t>();
  float *pp = probs.ptr<float>(), *pk = picks.ptr<float>();
  for_each_row(
      scores.device(), scores.rows(), n * n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float* in = ps + r * n;
        float *p = pp + r * n, *pick = pk + r * n;
        const float counts = static_cast<float>(pc[r]);
        const float largest = row.max(n, [&](std::int64_t i) { return in[i]; });
        const float total = row.sum(n, [&](std::int64_t i) { return exp_f(in[i] - largest); });
        row.each(n, [&](std::int64_t i) { p[i] = counts * exp_f(in[i] - largest) / total; });
        // An expert is picked if fewer than k stand before it.
        row.each(n, [&](std::int64_t i) {
          std::int64_t before = 0;
          for (std::int64_t j = 0; j < n; ++j)
            before += in[j] > in[i] || (in[j] == in[i] && j < i) ? 1 : 0;
          pick[i] = before < k ? counts : 0.0f;
        });
      });
}

void gate_sums(const Tensor& scores, const Tensor& probs, const Tensor& picks,
               const Tensor& counted, const Tensor& starts, const Tensor& sums) {
  const std::int64_t n = scores.columns(), groups = sums.rows();
  FATHOM_CHECK(sums.columns() == 3 * n && starts.elements() == groups + 1, "sums ",
               to_string(sums.shape()), " of ", to_string(scores.shape()));
  const float *ps = scores.ptr<float>(), *pp = probs.ptr<float>(), *pk = picks.ptr<float>();
  const std::int32_t *pc = counted.ptr<std::int32_t>(), *pg = starts.ptr<std::int32_t>();
  float* out = sums.ptr<float>();
  // A group's rows are cut into as many parts whatever there is to do it on: the order of a sum
  // depends on the group alone.
  constexpr std::int64_t kParts = 16;
  const Tensor partial = Tensor::empty(scores.device(), {groups * kParts, 3 * n});
  float* parts = partial.ptr<float>();
  for_each_row(
      scores.device(), groups * kParts,
      scores.rows() * 3 * n / (kParts * (groups > 0 ? groups : 1)),
      FATHOM_BODY(const Row& row, std::int64_t p) {
        const std::int64_t g = p / kParts, part = p % kParts;
        const std::int64_t begin = pg[g], rows = pg[g + 1] - begin;
        float* sum = parts + p * 3 * n;
        row.each(3 * n, [&](std::int64_t i) { sum[i] = 0.0f; });
        row.sync();
        for (std::int64_t r = begin + rows * part / kParts; r < begin + rows * (part + 1) / kParts;
             ++r) {
          const float counts = static_cast<float>(pc[r]);
          row.each(n, [&](std::int64_t i) {
            sum[i] += counts * ps[r * n + i];
            sum[n + i] += pp[r * n + i];
            sum[2 * n + i] += pk[r * n + i];
          });
        }
      });
  for_each_row(
      scores.device(), groups, kParts * 3 * n, FATHOM_BODY(const Row& row, std::int64_t g) {
        row.each(3 * n, [&](std::int64_t i) {
          float total = 0.0f;
          for (std::int64_t p = 0; p < kParts; ++p) total += parts[(g * kParts + p) * 3 * n + i];
          out[g * 3 * n + i] = total;
        });
      });
}

void gate_backward(const Tensor& probs, const Tensor& counted, const Tensor& group,
                   const Tensor& dscore_sums, const Tensor& dprob_sums, const Tensor& dscores) {
  const std::int64_t n = probs.columns();
  FATHOM_CHECK(dscore_sums.columns() == n && dscores.shape() == probs.shape(), "gradient of ",
               to_string(probs.shape()));
  const float *pp = probs.ptr<float>(), *pd = dscore_sums.ptr<float>();
  const float* dp = dprob_sums.defined() ? dprob_sums.ptr<float>() : nullptr;
  const std::int32_t *pc = counted.ptr<std::int32_t>(), *pg = group.ptr<std::int32_t>();
  float* out = dscores.ptr<float>();
  for_each_row(
      probs.device(), probs.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float *p = pp + r * n, *own = pd + pg[r] * n;
        const float counts = static_cast<float>(pc[r]);
        if (dp == nullptr) {
          row.each(n, [&](std::int64_t i) { out[r * n + i] = counts * own[i]; });
          return;
        }
        const float mean = row.sum(n, [&](std::int64_t i) { return p[i] * dp[i]; });
        row.each(n,
                 [&](std::int64_t i) { out[r * n + i] = counts * own[i] + p[i] * (dp[i] - mean); });
      });
}

}  // namespace fathom::kernels
