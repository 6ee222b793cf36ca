#include "kernels/token_importance.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/math.h"
#include "kernels/rows.h"

namespace fathom::kernels {
namespace {

constexpr std::int64_t kMostScores = std::int64_t{1} << 20;  // 4 MiB
constexpr float kDeviationEps = 1e-5f;

// inverse[t] = 1 / (std(h_t) + eps).
void inverse_deviations(const Tensor& states, const Tensor& inverse) {
  const float* h = states.ptr<float>();
  float* out = inverse.ptr<float>();
  const std::int64_t n = states.columns(), stride = states.row_stride();
  const float degrees = static_cast<float>(std::max<std::int64_t>(1, n - 1));
  for_each_row(
      states.device(), states.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float* in = h + r * stride;
        const float mean =
            row.sum(n, [&](std::int64_t i) { return in[i]; }) / static_cast<float>(n);
        const float square = row.sum(n, [&](std::int64_t i) {
          const float centred = in[i] - mean;
          return centred * centred;
        });
        row.each(1,
                 [&](std::int64_t) { out[r] = 1.0f / (sqrtf(square / degrees) + kDeviationEps); });
      });
}

// Scores h_i . h_j of the queries [first, first + rows) become their weights over the other tokens,
// divided by the number of queries.
void scores_to_weights(const Tensor& scores, const Tensor& inverse, std::int64_t first,
                       std::int64_t width) {
  float* all = scores.ptr<float>();
  const float* scale = inverse.ptr<float>();
  const std::int64_t n = scores.columns();
  const float root = 1.0f / sqrtf(static_cast<float>(width));
  for_each_row(
      scores.device(), scores.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const std::int64_t self = first + r;
        const float query = scale[self] * root;
        float* s = all + r * n;
        row.each(n, [&](std::int64_t i) { s[i] *= scale[i] * query; });
        row.sync();
        const float largest =
            row.max(n, [&](std::int64_t i) { return i == self ? -3.402823466e38f : s[i]; });
        row.each(n, [&](std::int64_t i) { s[i] = i == self ? 0.0f : exp_f(s[i] - largest); });
        row.sync();
        const float total = row.sum(n, [&](std::int64_t i) { return s[i]; });
        const float share = 1.0f / (total * static_cast<float>(n));
        row.each(n, [&](std::int64_t i) { s[i] *= share; });
      });
}

}  // namespace

void token_importance(const Tensor& states, const Tensor& importance) {
  const std::int64_t length = states.rows();
  FATHOM_CHECK(importance.elements() == length, "importance of ", length, " tokens into ",
               to_string(importance.shape()));
  if (length < 2) {
    fill(importance, 1.0f);
    return;
  }
  Device& device = states.device();
  const Tensor inverse = Tensor::empty(device, {length});
  inverse_deviations(states, inverse);
  // The blocks depend on the length alone, so that a sequence's result is its own whatever else is
  // in the batch.
  const std::int64_t block = std::clamp<std::int64_t>(kMostScores / length, 1, length);
  const Tensor workspace = Tensor::empty(device, {block, length});
  fill(importance, 0.0f);
  for (std::int64_t first = 0; first < length; first += block) {
    const std::int64_t rows = std::min(block, length - first);
    const Tensor scores = workspace.slice_rows(0, rows);
    gemm(states.slice_rows(first, rows), Trans::no, states, Trans::yes, scores);
    scores_to_weights(scores, inverse, first, states.columns());
    accumulate_column_sums(scores, importance);
  }
}

}  // namespace fathom::kernels
