#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core/tensor.h"

namespace fathom::test {

/// Normal values that f32 represents exactly.
inline std::vector<double> random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = normal(engine);
  return values;
}

inline std::vector<float> narrow(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// A matrix that is a column slice of a wider one, whose other columns are NaN.
inline Tensor strided(Device& device, std::int64_t rows, std::int64_t columns,
                      const std::vector<double>& values, std::int64_t left = 3,
                      std::int64_t right = 5) {
  const std::int64_t wide = left + columns + right;
  std::vector<float> padded(static_cast<std::size_t>(rows * wide), NAN);
  for (std::int64_t r = 0; r < rows && !values.empty(); ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      padded[static_cast<std::size_t>(r * wide + left + c)] =
          static_cast<float>(values[static_cast<std::size_t>(r * columns + c)]);
  return Tensor::from_host(device, {rows, wide}, padded).slice_columns(left, columns);
}

/// Largest |a - b|; infinite where one is not finite.
inline double largest_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0.0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double difference = std::fabs(a[i] - b[i]);
    if (!(difference <= largest)) largest = std::isfinite(difference) ? difference : INFINITY;
  }
  return largest;
}

}  // namespace fathom::test
