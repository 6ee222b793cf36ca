#include "kernels/best_logit.h"

#include "kernels/math.h"
#include "kernels/rows.h"

namespace fathom::kernels {

void best_logits(const Tensor& logits, const Tensor& best) {
  const std::int64_t v = logits.columns(), stride = logits.row_stride();
  FATHOM_CHECK(best.contiguous() && best.rows() == logits.rows() && best.columns() == kBestLogits &&
                   v <= std::int64_t{1} << 24,
               "best of ", to_string(logits.shape()), " into ", to_string(best.shape()));
  const float* x = logits.ptr<float>();
  float* out = best.ptr<float>();
  for_each_row(
      logits.device(), logits.rows(), v, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float* p = x + r * stride;
        const float largest = row.max(v, [&](std::int64_t i) { return p[i]; });
        // The lowest column of the largest logit, as the largest of the negated ones.
        const float none = -16777217.0f;
        const float negated = row.max(
            v, [&](std::int64_t i) { return p[i] == largest ? -static_cast<float>(i) : none; });
        const float sum = row.sum(v, [&](std::int64_t i) { return exp_f(p[i] - largest); });
        row.each(1, [&](std::int64_t) {
          out[r * kBestLogits + kLargest] = largest;
          out[r * kBestLogits + kLargestIndex] = negated > none ? -negated : -1.0f;
          out[r * kBestLogits + kExpSum] = sum;
        });
      });
}

}  // namespace fathom::kernels
