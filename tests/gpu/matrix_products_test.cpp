#include "gpu/matrix_products.h"

#include <cmath>
#include <gtest/gtest.h>

#include "core/tensor.h"
#include "gpu/gpu_device.h"
#include "kernels/gemm.h"
#include "tests/kernels/random_values.h"
#include "tests/support/expect_error.h"

namespace fathom::gpu {
namespace {

using kernels::Precision;
using kernels::Trans;
using test::narrow;
using test::random_values;

constexpr std::int64_t kRows = 40, kColumns = 24, kDepth = 300;  // too many rows for gemv()

// C = A B^T of f32 matrices on a device of a precision, and what it is in double: of the values as
// they are, and of their magnitudes.
struct Product {
  explicit Product(Precision precision, std::vector<double> (*round)(std::vector<double>) = nullptr,
                   kernels::Factors factors = kernels::Factors::rounded) {
    const auto device =
        kernels::make_device({.limit_bytes = std::size_t{8} << 20, .precision = precision});
    std::vector<double> a = random_values(kRows * kDepth, 1),
                        b = random_values(kColumns * kDepth, 2);
    const Tensor c = Tensor::empty(*device, {kRows, kColumns});
    kernels::gemm(Tensor::from_host(*device, {kRows, kDepth}, narrow(a)), Trans::no,
                  Tensor::from_host(*device, {kColumns, kDepth}, narrow(b)), Trans::yes, c, 1.0f,
                  0.0f, factors);
    got = to_host(c);
    if (round != nullptr) {
      a = round(a);
      b = round(b);
    }
    for (std::int64_t i = 0; i < kRows; ++i)
      for (std::int64_t j = 0; j < kColumns; ++j) {
        double sum = 0, size = 0;
        for (std::int64_t t = 0; t < kDepth; ++t) {
          const double term = a[static_cast<std::size_t>(i * kDepth + t)] *
                              b[static_cast<std::size_t>(j * kDepth + t)];
          sum += term;
          size += std::fabs(term);
        }
        exact.push_back(sum);
        magnitude.push_back(size);
      }
  }

  // The largest error relative to the magnitude of the terms.
  double largest_error() const {
    double largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = std::fabs(got[i] - exact[i]) / magnitude[i];
      if (!(error <= largest)) largest = error;
    }
    return largest;
  }

  std::vector<float> got;
  std::vector<double> exact, magnitude;
};

// A sum of k terms in f32, in any order, is off by less than k roundings of the terms' magnitude.
constexpr double kSumError = kDepth * 0x1p-24;

// The errors of f32 are of 24 bits, and largely cancel, as do those of rounded factors.
double rounding_shows() {
  return 10 * Product(Precision::f32).largest_error();
}

TEST(Precision, F32IsF32) {
  EXPECT_LE(Product(Precision::f32).largest_error(), kSumError);
}

// TF32 has 11 significant bits. Hardware may cut off the others instead of rounding, so that a
// factor is off by up to 2^-10, and a product by twice that and the product of both.
TEST(Precision, Tf32KeepsElevenBits) {
  const double error = Product(Precision::tf32).largest_error();
  EXPECT_LE(error, 0x1p-9 + 0x1p-20 + kSumError);
  EXPECT_GT(error, rounding_shows()) << "the factors have not been rounded";
}

// bf16 has 8 significant bits, rounded to nearest: a factor is off by up to 2^-9 of the next power
// of two, which is 2^-8 of itself at most.
TEST(Precision, Bf16KeepsEightBits) {
  const double error = Product(Precision::bf16).largest_error();
  EXPECT_LE(error, 0x1p-7 + 0x1p-16 + kSumError);
  EXPECT_GT(error, rounding_shows()) << "the factors have not been rounded";
}

std::vector<double> round_bf16(std::vector<double> values) {
  for (double& value : values) value = to_float(to_bf16(static_cast<float>(value)));
  return values;
}

// Only the factors are rounded: the products of rounded factors are summed in f32 and stay so.
TEST(Precision, Bf16SumsInF32) {
  EXPECT_LE(Product(Precision::bf16, round_bf16).largest_error(), kSumError);
}

TEST(Precision, ExactFactorsAreNotRounded) {
  for (const Precision precision : {Precision::tf32, Precision::bf16})
    EXPECT_LE(Product(precision, nullptr, kernels::Factors::exact).largest_error(), kSumError);
}

TEST(Precision, AFactorOfSeveralProductsIsRoundedOnce) {
  const auto values = narrow(random_values(40 * 25, 1));
  for (const Precision precision : {Precision::f32, Precision::tf32, Precision::bf16}) {
    const auto device =
        kernels::make_device({.limit_bytes = std::size_t{8} << 20, .precision = precision});
    const Tensor a = Tensor::from_host(*device, {40, 25}, values);
    const Tensor factor = kernels::as_factor(a);
    EXPECT_EQ(factor.dtype(), precision == Precision::bf16 ? DType::bf16 : DType::f32);
    EXPECT_EQ(factor.storage_id() == a.storage_id(), precision != Precision::bf16);
    const Tensor plain = Tensor::empty(*device, {40, 40}), same = Tensor::empty(*device, {40, 40});
    kernels::gemm(a, Trans::no, a, Trans::yes, plain, 0.5f);
    kernels::gemm(factor, Trans::no, factor, Trans::yes, same, 0.5f);
    EXPECT_EQ(to_host(plain), to_host(same));
    if (precision != Precision::bf16) continue;
    EXPECT_THROW(
        kernels::gemm(factor, Trans::no, a, Trans::yes, same, 1.0f, 0.0f, kernels::Factors::exact),
        Error);
  }
}

// alpha goes into A before it is rounded, beta stays out of all rounding.
TEST(Precision, Bf16TakesAlphaAndBeta) {
  const auto device =
      kernels::make_device({.limit_bytes = std::size_t{8} << 20, .precision = Precision::bf16});
  const Tensor a = Tensor::from_host(*device, {1, 1}, std::vector<float>{3});
  const Tensor b = Tensor::from_host(*device, {1, 1}, std::vector<float>{5});
  const float before = 1.0f + 0x1p-20f;  // more than bf16 holds
  const Tensor c = Tensor::from_host(*device, {1, 1}, std::vector<float>{before});
  kernels::gemm(a, Trans::no, b, Trans::no, c, -0.5f, 0.5f);
  EXPECT_EQ(to_host(c)[0], -7.5f + 0.5f * before);
}

TEST(MatrixProducts, MakesOnePlanForAShapeItsStridesAndAlignments) {
  const auto device = kernels::make_device({.limit_bytes = std::size_t{8} << 20});
  const MatrixProducts& products = gpu_device(*device).products();
  const Tensor a = Tensor::zeros(*device, {64, 64}), b = Tensor::zeros(*device, {64, 64});
  const Tensor c = Tensor::empty(*device, {64, 64});
  for (int time = 0; time < 3; ++time) kernels::gemm(a, Trans::no, b, Trans::no, c);
  EXPECT_EQ(products.plans(), 1u);
  kernels::gemm(a, Trans::yes, b, Trans::no, c);
  EXPECT_EQ(products.plans(), 2u);
  const Tensor part = c.slice_columns(0, 32);
  kernels::gemm(a, Trans::no, b.slice_columns(0, 32), Trans::no, part);
  EXPECT_EQ(products.plans(), 3u);
  kernels::gemm(a, Trans::no, b.slice_columns(1, 32), Trans::no, part);  // 4 bytes further
  EXPECT_EQ(products.plans(), 4u);
  for (const float value : to_host(part)) ASSERT_EQ(value, 0.0f);
}

TEST(MatrixProducts, NamesTheProductThatIsRefused) {
  const auto device = kernels::make_device({.limit_bytes = std::size_t{8} << 20});
  GpuDevice& gpu = gpu_device(*device);
  const Tensor c = Tensor::empty(*device, {64, 64});
  std::vector<float> host(64 * 64);
  testing::expect_error(
      ErrorKind::internal,
      [&] {
        gpu.products().enqueue({Trans::no, Trans::no, 64, 64, 64, Precision::f32, host.data(), 64,
                                c.ptr<void>(), 64, 1.0f, 0.0f, c.ptr<float>(), 64},
                               gpu.stream());
      },
      "cublasLtMatmul of 64x64 and 64x64 in f32");
}

}  // namespace
}  // namespace fathom::gpu
