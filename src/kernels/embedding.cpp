#include "kernels/embedding.h"

#include "kernels/elementwise.h"
#include "kernels/rows.h"

namespace fathom::kernels {
namespace {

FATHOM_HOST_DEVICE inline float widen(float x) {
  return x;
}
FATHOM_HOST_DEVICE inline float widen(bf16 x) {
  return to_float(x);
}

template <typename T>
void forward(const Tensor& table, std::int64_t first_id, const Tensor& ids, bool accumulate,
             const Tensor& out) {
  const T* from = table.ptr<T>();
  const std::int32_t* id = ids.ptr<std::int32_t>();
  float* to = out.ptr<float>();
  const std::int64_t n = table.columns(), rows = table.rows();
  for_each_row(
      out.device(), out.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const std::int64_t index = id[r] - first_id;
        const bool here = index >= 0 && index < rows;
        const T* source = from + (here ? index : 0) * n;
        const float weight = here ? 1.0f : 0.0f;
        if (accumulate) {
          row.each(n, [&](std::int64_t i) { to[r * n + i] += weight * widen(source[i]); });
        } else {
          row.each(n, [&](std::int64_t i) { to[r * n + i] = weight * widen(source[i]); });
        }
      });
}

}  // namespace

void embedding_forward(const Tensor& table, std::int64_t first_id, const Tensor& ids,
                       bool accumulate, const Tensor& out) {
  FATHOM_CHECK(out.contiguous() && out.columns() == table.columns() && out.rows() == ids.elements(),
               "embedding of ", ids.elements(), " ids into ", to_string(out.shape()));
  if (table.rows() == 0) {
    if (!accumulate) fill(out, 0.0f);
    return;
  }
  if (table.dtype() == DType::bf16) {
    forward<bf16>(table, first_id, ids, accumulate, out);
  } else {
    forward<float>(table, first_id, ids, accumulate, out);
  }
}

}  // namespace fathom::kernels
