#include "kernels/rope.h"

#include "kernels/rows.h"

namespace fathom::kernels {

void rotate(const Tensor& x, std::int64_t head_dim, const Tensor& positions, const Tensor& cosines,
            const Tensor& sines, float direction) {
  FATHOM_CHECK(x.columns() % head_dim == 0 && head_dim % 2 == 0 &&
                   cosines.columns() == head_dim / 2 && positions.elements() == x.rows(),
               "rotation of ", to_string(x.shape()), " with heads of ", head_dim);
  float* p = x.ptr<float>();
  const std::int32_t* position = positions.ptr<std::int32_t>();
  const float *cosine = cosines.ptr<float>(), *sine = sines.ptr<float>();
  const std::int64_t stride = x.row_stride(), half = head_dim / 2, heads = x.columns() / head_dim;
  for_each_row(
      x.device(), x.rows(), x.columns(), FATHOM_BODY(const Row& row, std::int64_t r) {
        const float* c = cosine + position[r] * half;
        const float* s = sine + position[r] * half;
        for (std::int64_t h = 0; h < heads; ++h) {
          float *low = p + r * stride + h * head_dim, *high = low + half;
          row.each(half, [&](std::int64_t i) {
            const float a = low[i], b = high[i], si = direction * s[i];
            low[i] = a * c[i] - b * si;
            high[i] = b * c[i] + a * si;
          });
        }
      });
}

}  // namespace fathom::kernels
