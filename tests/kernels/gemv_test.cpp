#include "kernels/gemv.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "core/dtype.h"
#include "random_values.h"
#include "tests/support/test_device.h"

namespace fathom::test {
namespace {

using kernels::Trans;

struct Case {
  std::int64_t rows, n, k;
  Trans trans_w;
  DType dtype;
  bool bias;
  bool packed = false;  ///< whether W is a matrix of its own, whose rows a vector load can take
};

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// W as a column slice of a NaN-filled matrix, or packed; bf16 weights are values that bf16 holds
// exactly.
Tensor make_weight(Device& device, const Case& c, std::vector<double>& values) {
  const std::int64_t rows = c.trans_w == Trans::yes ? c.n : c.k;
  const std::int64_t columns = c.trans_w == Trans::yes ? c.k : c.n;
  if (c.dtype == DType::bf16)
    for (double& value : values) value = to_float(to_bf16(static_cast<float>(value)));
  if (c.packed) {
    const Tensor matrix = Tensor::empty(device, {rows, columns}, c.dtype);
    copy_from_host(matrix, narrow(values));
    return matrix;
  }
  if (c.dtype == DType::f32) return strided(device, rows, columns, values);
  const Tensor wide = Tensor::empty(device, {rows, columns + 5}, DType::bf16);
  std::vector<float> padded(at(rows * (columns + 5)), NAN);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < columns; ++i)
      padded[at(r * (columns + 5) + 2 + i)] = static_cast<float>(values[at(r * columns + i)]);
  copy_from_host(wide, padded);
  return wide.slice_columns(2, columns);
}

// What the product is, and how far rounding may lead away from it: a sum of m terms in any order
// is off by less than m * 2^-24 times the sum of their magnitudes.
struct Expected {
  std::vector<double> value, bound;
};

std::vector<float> multiply(const Case& c, Expected& want) {
  const auto device = make_test_device(std::size_t{64} << 20);
  std::vector<double> w = random_values(c.n * c.k, 1);
  const std::vector<double> x = random_values(c.rows * c.k, 2), bias = random_values(c.n, 3);
  const Tensor weight = make_weight(*device, c, w);
  const Tensor y = strided(*device, c.rows, c.n, {});
  const Tensor b = c.bias ? Tensor::from_host(*device, {c.n}, narrow(bias)) : Tensor();
  kernels::gemv(strided(*device, c.rows, c.k, x), weight, c.trans_w, b, y);
  want = {};
  for (std::int64_t r = 0; r < c.rows; ++r)
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = c.bias ? bias[at(j)] : 0.0, magnitude = std::abs(sum);
      for (std::int64_t i = 0; i < c.k; ++i) {
        const double term =
            x[at(r * c.k + i)] * w[at(c.trans_w == Trans::yes ? j * c.k + i : i * c.n + j)];
        sum += term;
        magnitude += std::abs(term);
      }
      want.value.push_back(sum);
      want.bound.push_back(static_cast<double>(c.k + 2) * 0x1p-24 * magnitude);
    }
  return to_host(y);
}

// The largest difference in units of its bound.
double largest_excess(const std::vector<float>& got, const Expected& want) {
  double largest = got.size() == want.value.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double excess = std::abs(got[i] - want.value[i]) / want.bound[i];
    if (!(excess <= largest)) largest = excess;
  }
  return largest;
}

TEST(Gemv, AgreesForAllRowsLayoutsAndTypes) {
  for (std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 31, 32})
    for (Trans trans_w : {Trans::yes, Trans::no})
      for (DType dtype : {DType::f32, DType::bf16})
        for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                   {3, 7},
                                   {37, 19},
                                   {65, 576},
                                   {130, 41},
                                   {1100, 100}}) {
          SCOPED_TRACE(testing::Message()
                       << rows << " rows, n " << n << ", k " << k << ", " << to_string(dtype)
                       << (trans_w == Trans::yes ? " T" : ""));
          Expected want;
          const std::vector<float> got =
              multiply({rows, n, k, trans_w, dtype, rows % 2 == 0}, want);
          EXPECT_LE(largest_excess(got, want), 1);
        }
}

// Sizes that a GPU's kernels take by vectors, and in several rounds.
TEST(Gemv, AgreesForMatricesOfModels) {
  for (std::int64_t rows : {1, 3, 8, 13})
    for (Trans trans_w : {Trans::yes, Trans::no})
      for (DType dtype : {DType::f32, DType::bf16})
        for (const auto& [n, k] :
             {std::pair<std::int64_t, std::int64_t>{72, 576}, {40, 2112}, {24, 9216}}) {
          SCOPED_TRACE(testing::Message()
                       << rows << " rows, n " << n << ", k " << k << ", " << to_string(dtype)
                       << (trans_w == Trans::yes ? " T" : ""));
          Expected want;
          const std::vector<float> got = multiply({rows, n, k, trans_w, dtype, true, true}, want);
          EXPECT_LE(largest_excess(got, want), 1);
        }
}

TEST(Gemv, GivesTheSameBitsWithAnyNumberOfThreads) {
  const int before = omp_get_max_threads();
  for (Trans trans_w : {Trans::yes, Trans::no}) {
    Expected want;
    const Case c{3, 700, 333, trans_w, DType::f32, true};
    omp_set_num_threads(1);
    const std::vector<float> one = multiply(c, want);
    for (int threads : {2, 3, 16}) {
      omp_set_num_threads(threads);
      EXPECT_EQ(one, multiply(c, want));
    }
    omp_set_num_threads(before);
  }
}

TEST(Gemv, ARowDoesNotDependOnTheOthers) {
  for (const std::int64_t k : {130, 1160}) {
    const auto device = make_test_device(std::size_t{16} << 20);
    const Tensor w = Tensor::from_host(*device, {70, k}, narrow(random_values(70 * k, 1)));
    const Tensor x = Tensor::from_host(*device, {32, k}, narrow(random_values(32 * k, 2)));
    const Tensor all = Tensor::empty(*device, {32, 70}), one = Tensor::empty(*device, {1, 70});
    kernels::gemv(x, w, Trans::yes, {}, all);
    for (std::int64_t row = 0; row < 32; ++row) {
      kernels::gemv(x.slice_rows(row, 1), w, Trans::yes, {}, one);
      EXPECT_EQ(to_host(one), to_host(all.slice_rows(row, 1))) << row << ", k " << k;
    }
  }
}

TEST(Gemv, RefusesShapesThatDoNotFit) {
  const auto device = make_test_device(std::size_t{16} << 20);
  const Tensor x = Tensor::zeros(*device, {2, 5}), y = Tensor::zeros(*device, {2, 4});
  const Tensor w = Tensor::zeros(*device, {4, 6});
  EXPECT_THROW(kernels::gemv(x, w, Trans::yes, {}, y), Error);
  EXPECT_THROW(
      kernels::gemv(Tensor::zeros(*device, {kernels::kGemvRows + 1, 6}), w, Trans::yes, {}, y),
      Error);
}

}  // namespace
}  // namespace fathom::test
