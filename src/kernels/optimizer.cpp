#include "kernels/optimizer.h"

#include <cmath>

#include "kernels/rows.h"

namespace fathom::kernels {

void adamw(const AdamW& options, const Tensor& weight, const Tensor& gradient,
           const Tensor& first_moment, const Tensor& second_moment) {
  FATHOM_CHECK(
      weight.contiguous() && gradient.contiguous() && weight.elements() == gradient.elements(),
      "adamw of ", to_string(weight.shape()), " with ", to_string(gradient.shape()));
  float *w = weight.ptr<float>(), *g = gradient.ptr<float>();
  float *m = first_moment.ptr<float>(), *v = second_moment.ptr<float>();
  const AdamW o = options;
  const float keep = 1.0f - o.lr * o.weight_decay;
  const float rate = o.lr / o.correction1, inverse2 = 1.0f / o.correction2;
  for_each_element(
      weight.device(), weight.elements(), FATHOM_BODY(std::int64_t i) {
        const float grad = g[i] * o.gradient_scale;
        const float m1 = o.beta1 * m[i] + (1.0f - o.beta1) * grad;
        const float v1 = o.beta2 * v[i] + (1.0f - o.beta2) * grad * grad;
        m[i] = m1;
        v[i] = v1;
        w[i] = w[i] * keep - rate * m1 / (sqrtf(v1 * inverse2) + o.eps);
        g[i] = 0.0f;
      });
}

}  // namespace fathom::kernels
