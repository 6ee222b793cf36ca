#include "methods/moc/dominance.h"

#include <algorithm>
#include <numeric>

namespace fathom::methods::moc {

double largest_part(const Tensor& states, const routing::Groups& groups) {
  const std::vector<float> values = to_host(states);
  const std::vector<std::int32_t> counted = to_host_i32(groups.counted_rows);
  const std::int64_t width = states.columns();
  double largest = 0;
  for (std::size_t g = 0; g + 1 < groups.starts.size(); ++g) {
    const auto rows = [&](const auto& visit) {
      for (std::int64_t r = groups.starts[g]; r < groups.starts[g + 1]; ++r)
        if (counted[static_cast<std::size_t>(r)] == 1) visit(values.begin() + r * width);
    };
    std::vector<double> sum(static_cast<std::size_t>(width), 0.0);
    rows([&](const auto row) {
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += row[static_cast<std::ptrdiff_t>(c)];
    });
    const double square = std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0);
    if (square == 0) continue;
    rows([&](const auto row) {
      largest = std::max(largest, std::inner_product(sum.begin(), sum.end(), row, 0.0) / square);
    });
  }
  return largest;
}

}  // namespace fathom::methods::moc
