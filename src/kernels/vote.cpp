#include "kernels/vote.h"

#include "kernels/loss_row.h"

namespace fathom::kernels {
namespace {

LogitChunk first_pair(const Tensor& logits, const Tensor& weights, const Tensor& labels,
                      const Tensor& results) {
  const std::int64_t n = weights.rows(), k = weights.columns();
  FATHOM_CHECK(k > 1 && logits.rows() == (k + 1) * n && results.rows() == (k - 1) * n &&
                   logits.contiguous() && weights.contiguous(),
               "logits ", to_string(logits.shape()), ", weights ", to_string(weights.shape()),
               " and results ", to_string(results.shape()));
  return {
      .student = logits.slice_rows(n, n), .teacher = logits.slice_rows(k * n, n), .labels = labels};
}

}  // namespace

void vote(const TokenLoss& loss, const Tensor& logits, const Tensor& weights, const Tensor& labels,
          const Tensor& results, bool gradient) {
  const LogitChunk pair = first_pair(logits, weights, labels, results);
  FATHOM_CHECK(!two_stage(loss, pair), to_string(loss.divergence.kind), " between late layers");
  const LossView first(loss, pair);
  const std::int64_t n = weights.rows(), k = weights.columns(), v = logits.columns();
  const float *from = first.student, *w = weights.ptr<float>();
  float *mixture = logits.ptr<float>(), *out = results.ptr<float>();
  for_each_row(
      logits.device(), n, (k + 1) * v, FATHOM_BODY(const Row& row, std::int64_t r) {
        float* mixed = mixture + r * v;
        const float *l = from + r * v, *g = w + r * k;
        const float g0 = g[0], g1 = g[1];
        row.each(v, [&](std::int64_t i) { mixed[i] = g0 * l[i] + g1 * l[n * v + i]; });
        for (std::int64_t j = 2; j < k; ++j) {
          const float* layer = l + j * n * v;
          const float weight = g[j];
          row.each(v, [&](std::int64_t i) { mixed[i] += weight * layer[i]; });
        }
        row.sync();  // the mixture has been read off: gradients may take the logits' place
        for (std::int64_t j = 0; j + 1 < k; ++j) {
          LossView layer = first;
          layer.student += j * n * v;
          const RowMaxima m = row_maxima(row, layer, r);
          row_gradient(row, layer, r, m, row_sums(row, layer, r, m),
                       out + (j * n + r) * kLossResults, gradient);
        }
      });
}

}  // namespace fathom::kernels
