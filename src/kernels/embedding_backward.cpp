#include "kernels/embedding.h"
#include "kernels/rows.h"

namespace fathom::kernels {

void embedding_backward(const Tensor& dout, std::int64_t first_id, const Tensor& ids,
                        const Tensor& dtable) {
  // A block of columns per kernel row: ids may repeat, and one column sees them in order.
  constexpr std::int64_t kColumns = 64;
  const float* from = dout.ptr<float>();
  const std::int32_t* id = ids.ptr<std::int32_t>();
  float* to = dtable.ptr<float>();
  const std::int64_t n = dtable.columns(), rows = dtable.rows(), tokens = ids.elements();
  FATHOM_CHECK(dout.contiguous() && dout.columns() == n && dout.rows() == tokens,
               "embedding gradient of ", to_string(dout.shape()));
  for_each_row(
      dout.device(), (n + kColumns - 1) / kColumns, tokens * kColumns,
      FATHOM_BODY(const Row& row, std::int64_t block) {
        const std::int64_t begin = block * kColumns;
        const std::int64_t count = n - begin < kColumns ? n - begin : kColumns;
        for (std::int64_t r = 0; r < tokens; ++r) {
          const std::int64_t index = id[r] - first_id;
          if (index < 0 || index >= rows) continue;
          row.each(count,
                   [&](std::int64_t i) { to[index * n + begin + i] += from[r * n + begin + i]; });
        }
      });
}

}  // namespace fathom::kernels
