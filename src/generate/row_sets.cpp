#include "generate/row_sets.h"

#include "kernels/elementwise.h"

namespace fathom::generate {

Tensor upload(Device& device, const std::vector<std::int32_t>& values) {
  return Tensor::from_host(device, {static_cast<std::int64_t>(values.size())},
                           std::span<const std::int32_t>(values));
}

Tensor gather(const Tensor& x, const std::vector<std::int32_t>& index) {
  const Tensor picked =
      Tensor::empty(x.device(), {static_cast<std::int64_t>(index.size()), x.columns()});
  kernels::gather_rows(x, upload(x.device(), index), picked);
  return picked;
}

Tensor rows_of(const Tensor& x, const std::vector<std::int32_t>& index) {
  return static_cast<std::int64_t>(index.size()) == x.rows() ? x : gather(x, index);
}

Tensor stack(const std::vector<Tensor>& parts) {
  if (parts.size() == 1) return parts.front();
  std::int64_t rows = 0;
  for (const Tensor& part : parts) rows += part.rows();
  const Tensor all = Tensor::empty(parts.front().device(), {rows, parts.front().columns()});
  std::int64_t at = 0;
  for (const Tensor& part : parts) {
    kernels::copy(part, all.slice_rows(at, part.rows()));
    at += part.rows();
  }
  return all;
}

}  // namespace fathom::generate
