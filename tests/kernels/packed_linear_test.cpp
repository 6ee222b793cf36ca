#include "kernels/packed_linear.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "random_values.h"

namespace fathom::test {
namespace {

using kernels::MaxoutLayer;
using kernels::PackedLinear;

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// y = x W^T + b in f64, and for each value a bound of the error of f32: k + 1 roundings of partial
/// sums that are no larger than the sum of magnitudes.
struct Expected {
  std::vector<double> y, bound;
};

Expected multiply(const std::vector<double>& x, std::int64_t x_stride, std::int64_t rows,
                  const std::vector<double>& w, const std::vector<double>& b, std::int64_t n,
                  std::int64_t k) {
  Expected out;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = b.empty() ? 0.0 : b[at(j)], magnitude = std::fabs(sum);
      for (std::int64_t i = 0; i < k; ++i) {
        const double term = x[at(r * x_stride + i)] * w[at(j * k + i)];
        sum += term;
        magnitude += std::fabs(term);
      }
      out.y.push_back(sum);
      out.bound.push_back((static_cast<double>(k) + 1) * kEpsilon * magnitude);
    }
  return out;
}

// Every number of rows around a block, outputs that fill neither vectors nor panels, and rows of x
// that overlap as in a convolution.
TEST(PackedLinear, MultipliesEveryShape) {
  for (const std::int64_t rows : {1, 5, 6, 7, 13})
    for (const std::int64_t n : {1, 15, 16, 17, 50, 64, 106, 288})
      for (const std::int64_t k : {1, 7, 64})
        for (const std::int64_t stride : {k + 3, (k + 2) / 3}) {
          const auto w = random_values(n * k, 1), b = random_values(n, 2);
          const auto x = random_values(rows * stride + k, 3);
          const Expected expected = multiply(x, stride, rows, w, b, n, k);
          const std::int64_t y_stride = n + 2;
          std::vector<float> y(at(rows * y_stride), -7.0f);
          const std::vector<float> w32 = narrow(w), b32 = narrow(b), x32 = narrow(x);
          PackedLinear(w32.data(), b32.data(), n, k)
              .apply(x32.data(), stride, rows, y.data(), y_stride);
          for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t j = 0; j < n; ++j)
              ASSERT_NEAR(y[at(r * y_stride + j)], expected.y[at(r * n + j)],
                          expected.bound[at(r * n + j)])
                  << rows << "x" << n << "x" << k << " at " << r << ", " << j;
            ASSERT_EQ(y[at(r * y_stride + n)], -7.0f) << "written beyond the outputs";
          }
        }
}

TEST(PackedLinear, GivesARowTheSameBitsInEveryBatch) {
  constexpr std::int64_t rows = 29, n = 106, k = 96;
  const std::vector<float> w = narrow(random_values(n * k, 4)),
                           x = narrow(random_values(rows * k, 5));
  const PackedLinear layer(w.data(), nullptr, n, k);
  std::vector<float> together(at(rows * n)), alone(at(n));
  layer.apply(x.data(), k, rows, together.data(), n);
  for (std::int64_t r = 0; r < rows; ++r) {
    layer.apply(x.data() + r * k, k, 1, alone.data(), n);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + r * n)) << "row " << r;
  }
}

TEST(MaxoutLayer, TakesTheLargestPieceAndNormalises) {
  constexpr std::int64_t rows = 61, width = 96, pieces = 3, k = 40;
  const auto w = random_values(width * pieces * k, 6), b = random_values(width * pieces, 7);
  const auto x = random_values(rows * k, 8), residual = random_values(rows * width, 9);
  const auto gain = random_values(width, 10), shift = random_values(width, 11);
  const Expected raw = multiply(x, k, rows, w, b, width * pieces, k);

  std::vector<double> expected;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<double> best;
    for (std::int64_t c = 0; c < width; ++c) {
      const double* row = raw.y.data() + r * width * pieces + c;
      best.push_back(std::max({row[0], row[width], row[2 * width]}));
    }
    double mean = 0.0, variance = 0.0;
    for (const double value : best) mean += value / width;
    for (const double value : best) variance += (value - mean) * (value - mean) / width;
    for (std::int64_t c = 0; c < width; ++c)
      expected.push_back(residual[at(r * width + c)] + shift[at(c)] +
                         gain[at(c)] * (best[at(c)] - mean) / std::sqrt(variance + 1e-8));
  }

  const std::vector<float> w32 = narrow(w), b32 = narrow(b), x32 = narrow(x),
                           r32 = narrow(residual);
  const MaxoutLayer layer({w32.data(), b32.data(), width * pieces, k}, narrow(gain), narrow(shift));
  std::vector<float> out(at(rows * width));
  layer.apply(x32.data(), k, rows, r32.data(), out.data());
  // The norm divides by the deviation (at least 2 here, of sums of 40 products): an error of a sum
  // weighs no more than its bound times the gain, and the mean and deviation add as much again.
  const double sum_error = *std::max_element(raw.bound.begin(), raw.bound.end());
  const double largest_gain = std::fabs(*std::max_element(
      gain.begin(), gain.end(), [](double a, double c) { return std::fabs(a) < std::fabs(c); }));
  EXPECT_LE(largest_difference(out, expected), 2 * largest_gain * sum_error + 16 * kEpsilon);
}

}  // namespace
}  // namespace fathom::test
