#include "kernels/math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>

namespace fathom::kernels {
namespace {

constexpr double kSmallestNormal = 1.1754943508222875e-38;

// Distance of adjacent floats at |x|.
double ulp(double x) {
  const double size = std::max(std::fabs(x), kSmallestNormal);
  return std::ldexp(1.0, std::ilogb(size) - 23);
}

// The largest error in ulp over every 509th float between low and high, both signs of the bit
// patterns included; a result that should be NaN or infinite and is not counts as infinite.
template <typename F, typename Exact>
double worst_error(float low, float high, F f, Exact exact) {
  double worst = 0;
#pragma omp parallel for reduction(max : worst) schedule(static)
  for (std::int64_t step = 0; step < (std::int64_t{1} << 32) / 509; ++step) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(step * 509));
    if (!(x >= low && x <= high)) continue;
    const double want = exact(static_cast<double>(x));
    worst = std::max(worst, std::fabs(static_cast<double>(f(x)) - want) / ulp(want));
  }
  return worst;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Math, ExpIsWithinTwoUlp) {
  EXPECT_LT(worst_error(-86.9f, 88.72f, exp_f, [](double x) { return std::exp(x); }), 2.0);
}

TEST(Math, ExpAtItsEnds) {
  EXPECT_EQ(exp_f(0.0f), 1.0f);
  EXPECT_EQ(exp_f(-87.01f), 0.0f);
  EXPECT_EQ(exp_f(-1e30f), 0.0f);
  EXPECT_EQ(exp_f(-kInfinity), 0.0f);
  EXPECT_TRUE(std::isfinite(exp_f(88.72f)));
  EXPECT_EQ(exp_f(88.73f), kInfinity);
  EXPECT_EQ(exp_f(1e30f), kInfinity);
  EXPECT_EQ(exp_f(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(exp_f(kNaN)));
  EXPECT_TRUE(std::isnan(exp_f(-kNaN)));
}

TEST(Math, LogIsWithinThreeUlp) {
  EXPECT_LT(worst_error(1.1754944e-38f, 3.4e38f, log_f, [](double x) { return std::log(x); }), 3.0);
  EXPECT_EQ(log_f(1.0f), 0.0f);
}

TEST(Math, TanhIsWithinFourUlp) {
  EXPECT_LT(worst_error(-kInfinity, kInfinity, tanh_f, [](double x) { return std::tanh(x); }), 4.0);
  EXPECT_TRUE(std::isnan(tanh_f(kNaN)));
}

TEST(Math, SigmoidIsWithinFourUlp) {
  const auto exact = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  EXPECT_LT(worst_error(-86.9f, kInfinity, sigmoid_f, exact), 4.0);
  EXPECT_EQ(sigmoid_f(-100.0f), 0.0f);
  EXPECT_EQ(sigmoid_f(-kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(sigmoid_f(kNaN)));
}

TEST(Math, ErfIsWithinThreeUlp) {
  EXPECT_LT(worst_error(-kInfinity, kInfinity, erf_f, [](double x) { return std::erf(x); }), 3.0);
  EXPECT_TRUE(std::isnan(erf_f(kNaN)));
}

}  // namespace
}  // namespace fathom::kernels
