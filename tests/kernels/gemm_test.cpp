#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include "core/dtype.h"
#include "kernels/gemv.h"
#include "random_values.h"
#include "tests/support/test_device.h"

namespace fathom::test {
namespace {

using kernels::Trans;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

struct Case {
  std::int64_t m, n, k;
  Trans trans_a, trans_b;
  float alpha, beta;
};

std::vector<double> expected(const Case& c, const std::vector<double>& a,
                             const std::vector<double>& b, const std::vector<double>& before) {
  std::vector<double> out(at(c.m * c.n));
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = 0;
      for (std::int64_t t = 0; t < c.k; ++t)
        sum += a[at(c.trans_a == Trans::no ? i * c.k + t : t * c.m + i)] *
               b[at(c.trans_b == Trans::no ? t * c.n + j : j * c.k + t)];
      out[at(i * c.n + j)] = c.alpha * sum + (c.beta == 0 ? 0 : c.beta * before[at(i * c.n + j)]);
    }
  return out;
}

std::string name(const Case& c) {
  return str(c.m, "x", c.n, "x", c.k, c.trans_a == Trans::yes ? " T" : " N",
             c.trans_b == Trans::yes ? "T" : "N", " alpha ", c.alpha, " beta ", c.beta);
}

template <typename Check>
void for_each_case(Check check) {
  const std::int64_t sizes[][3] = {{1, 1, 1},    {1, 33, 70},  {5, 3, 2},      {8, 40, 64},
                                   {17, 129, 9}, {70, 65, 33}, {128, 96, 2050}};
  for (const auto& [m, n, k] : sizes)
    for (Trans trans_a : {Trans::no, Trans::yes})
      for (Trans trans_b : {Trans::no, Trans::yes})
        for (const auto& [alpha, beta] :
             {std::pair{1.0f, 0.0f}, {1.0f, 1.0f}, {-0.5f, 0.0f}, {2.0f, 0.25f}})
          check(Case{m, n, k, trans_a, trans_b, alpha, beta});
}

TEST(Gemm, AgreesForAllLayouts) {
  const auto device = make_test_device(std::size_t{64} << 20);
  for_each_case([&](const Case& c) {
    SCOPED_TRACE(name(c));
    const auto a = random_values(c.m * c.k, 1), b = random_values(c.k * c.n, 2),
               before = random_values(c.m * c.n, 3);
    const auto operand = [&](Trans trans, std::int64_t rows, std::int64_t columns,
                             const std::vector<double>& values) {
      return trans == Trans::no ? strided(*device, rows, columns, values)
                                : strided(*device, columns, rows, values);
    };
    // With beta 0 what C holds before, here NaN, must not matter.
    const Tensor out = strided(*device, c.m, c.n, c.beta == 0 ? std::vector<double>{} : before);
    kernels::gemm(operand(c.trans_a, c.m, c.k, a), c.trans_a, operand(c.trans_b, c.k, c.n, b),
                  c.trans_b, out, c.alpha, c.beta);
    const double tolerance = 2e-6 * std::sqrt(static_cast<double>(c.k)) * std::fabs(c.alpha) + 1e-6;
    EXPECT_LT(largest_difference(to_host(out), expected(c, a, b, before)), tolerance);
  });
}

std::vector<double> rounded(std::vector<double> values) {
  for (double& value : values) value = to_float(to_bf16(static_cast<float>(value)));
  return values;
}

// Whether gemm() rounds A to bf16 when B is: only where bf16 is multiplied natively, beyond the few
// rows that go through gemv().
bool rounds_a(const Case& c) {
  const bool few_rows =
      c.trans_a == Trans::no && c.alpha == 1 && c.beta == 0 && kernels::gemv_suits(c.m, c.trans_b);
  return kernels::native_bf16() && !few_rows;
}

TEST(Gemm, MultipliesBf16Weights) {
  const auto device = make_test_device(std::size_t{64} << 20);
  for_each_case([&](const Case& c) {
    if (c.beta != 0 && c.beta != 1) return;
    SCOPED_TRACE(name(c));
    const auto a = random_values(c.m * c.k, 1), before = random_values(c.m * c.n, 3);
    const auto b = rounded(random_values(c.k * c.n, 2));
    const Shape shape = c.trans_b == Trans::no ? Shape{c.k, c.n} : Shape{c.n, c.k};
    const Tensor weight = Tensor::empty(*device, shape, DType::bf16);
    copy_from_host(weight, narrow(b));
    const Tensor out = strided(*device, c.m, c.n, c.beta == 0 ? std::vector<double>{} : before);
    const Tensor left =
        c.trans_a == Trans::no ? strided(*device, c.m, c.k, a) : strided(*device, c.k, c.m, a);
    kernels::gemm(left, c.trans_a, weight, c.trans_b, out, c.alpha, c.beta);
    const std::vector<double> want = expected(c, rounds_a(c) ? rounded(a) : a, b, before);
    const double tolerance = 2e-6 * std::sqrt(static_cast<double>(c.k)) * std::fabs(c.alpha) + 1e-6;
    EXPECT_LT(largest_difference(to_host(out), want), tolerance);
  });
}

TEST(Gemm, RefusesShapesThatDoNotFit) {
  const auto device = make_test_device(std::size_t{16} << 20);
  const Tensor a = Tensor::zeros(*device, {2, 5}), c = Tensor::zeros(*device, {2, 4});
  EXPECT_THROW(kernels::gemm(a, Trans::no, Tensor::zeros(*device, {6, 4}), Trans::no, c), Error);
  EXPECT_THROW(kernels::gemm(a, Trans::no, Tensor::zeros(*device, {5, 3}), Trans::no, c), Error);
}

TEST(Gemm, TakesNoRows) {
  const auto device = make_test_device(std::size_t{16} << 20);
  kernels::gemm(Tensor::zeros(*device, {0, 5}), Trans::no, Tensor::zeros(*device, {5, 4}),
                Trans::no, Tensor::zeros(*device, {0, 4}));
}

TEST(Gemm, AddsABias) {
  const auto device = make_test_device(std::size_t{16} << 20);
  for (const std::int64_t m : {0, 1, 5, 33, 70})
    for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{24, 40}, {17, 9}, {8, 0}})
      for (Trans trans_b : {Trans::no, Trans::yes})
        for (bool biased : {true, false}) {
          const Case c{m, n, k, Trans::no, trans_b, 1, 0};
          SCOPED_TRACE(name(c));
          const auto a = random_values(m * k, 1), b = random_values(k * n, 2);
          const auto bias = random_values(n + 1, 3);  // the first is not part of it
          const Tensor added = Tensor::from_host(*device, {n + 1}, narrow(bias)).slice_rows(1, n);
          const Tensor out = strided(*device, m, n, {});
          const Tensor right =
              trans_b == Trans::no ? strided(*device, k, n, b) : strided(*device, n, k, b);
          kernels::gemm_bias(strided(*device, m, k, a), right, trans_b, biased ? added : Tensor(),
                             out);
          std::vector<double> want = expected(c, a, b, {});
          for (std::size_t i = 0; i < want.size() && biased; ++i) want[i] += bias[1 + i % at(n)];
          EXPECT_LT(largest_difference(to_host(out), want),
                    2e-6 * std::sqrt(static_cast<double>(k)) + 1e-6);
        }
  EXPECT_THROW(
      kernels::gemm_bias(Tensor::zeros(*device, {40, 8}), Tensor::zeros(*device, {8, 16}),
                         Trans::no, Tensor::zeros(*device, {15}), Tensor::zeros(*device, {40, 16})),
      Error);
}

TEST(Gemm, OfNothingIsZero) {
  const auto device = make_test_device(std::size_t{16} << 20);
  const Tensor a = Tensor::empty(*device, {3, 0}), b = Tensor::empty(*device, {0, 2});
  for (const float beta : {0.0f, 0.5f, 1.0f}) {
    const std::vector<float> before =
        beta == 0 ? std::vector<float>(6, NAN) : std::vector<float>{1, 2, 3, 4, 5, 6};
    const Tensor c = Tensor::from_host(*device, {3, 2}, before);
    kernels::gemm(a, Trans::no, b, Trans::no, c, 1.0f, beta);
    std::vector<float> want(6, 0.0f);
    for (std::size_t i = 0; i < 6 && beta != 0; ++i) want[i] = beta * before[i];
    EXPECT_EQ(to_host(c), want) << "beta " << beta;
  }
}

}  // namespace
}  // namespace fathom::test
