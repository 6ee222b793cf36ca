#include "model/readback.h"

#include <utility>

#include "kernels/elementwise.h"

namespace fathom::model {

void Readback::add(const Tensor& values, Use use) {
  if (values.defined() && values.elements() > 0) pending_.push_back({values, std::move(use)});
}

void Readback::read() {
  if (pending_.empty()) return;
  const std::vector<Pending> all = std::exchange(pending_, {});
  std::int64_t total = 0;
  for (const Pending& one : all) total += one.values.elements();
  const Tensor together = Tensor::empty(all.front().values.device(), {total});
  std::int64_t at = 0;
  for (const Pending& one : all) {
    const std::int64_t n = one.values.elements();
    kernels::copy(one.values, together.slice_rows(at, n).view(one.values.shape()));
    at += n;
  }
  const std::vector<float> values = to_host(together);
  auto from = values.begin();
  for (const Pending& one : all) {
    const auto end = from + one.values.elements();
    one.use(std::vector<float>(from, end));
    from = end;
  }
}

}  // namespace fathom::model
