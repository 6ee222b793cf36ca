#include "autograd/adapter_operations.h"

#include <cmath>
#include <gtest/gtest.h>

#include "gradient_check.h"

namespace fathom::test {
namespace {

using autograd::Tape;
using autograd::Var;

constexpr std::int64_t kRows = 37, kInputs = 19, kWidth = 23;  // of y

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

Input y_input() {
  return random_input({kRows, kWidth}, 1);
}
Input x_input() {
  return random_input({kRows, kInputs}, 2);
}

// sum over i of x[r, i] a[k, i]
double dot_row(const Doubles& x, std::int64_t r, const Doubles& a, std::int64_t k) {
  double sum = 0;
  for (std::int64_t i = 0; i < kInputs; ++i) sum += x[at(r * kInputs + i)] * a[at(k * kInputs + i)];
  return sum;
}

class AdapterOperations : public testing::Test {
 protected:
  Tensor vector_of(const std::vector<float>& values) {
    return Tensor::from_host(*device_, {static_cast<std::int64_t>(values.size())}, values);
  }
  kernels::Dropout dropout(std::uint32_t site, std::int64_t first_column = 0) {
    std::vector<std::int32_t> positions, samples;
    for (std::int32_t r = 0; r < kRows; ++r) {
      positions.push_back(r % 11);
      samples.push_back(r / 11);
    }
    return {.probability = 0.4f,
            .key0 = 3,
            .key1 = 4,
            .site = site,
            .positions = Tensor::from_host(*device_, {kRows}, positions),
            .samples = Tensor::from_host(*device_, {kRows}, samples),
            .first_column = first_column};
  }
  // The mask of a dropout: what ones become.
  Doubles mask(const kernels::Dropout& drop) {
    const Tensor ones = Tensor::empty(*device_, {kRows, kInputs});
    kernels::fill(ones, 1.0f);
    kernels::dropout_backward(ones, drop, ones);
    const std::vector<float> values = to_host(ones);
    return {values.begin(), values.end()};
  }
  std::unique_ptr<Device> device_ = make_test_device();
};

TEST_F(AdapterOperations, Bias) {
  check_gradients(*device_, {.inputs = {y_input(), random_input({kWidth}, 3)},
                             .operation =
                                 [](Tape* tape, const std::vector<Var>& in) {
                                   return autograd::add_bias(tape, in[0], in[1]);
                                 },
                             .definition =
                                 [](const std::vector<Doubles>& in) {
                                   Doubles y = in[0];
                                   for (std::size_t i = 0; i < y.size(); ++i)
                                     y[i] += in[1][i % at(kWidth)];
                                   return y;
                                 },
                             .longest_sum = kRows});
}

TEST_F(AdapterOperations, ColumnsOfAnotherMatrix) {
  constexpr std::int64_t kFirst = 5, kCount = 7;
  check_gradients(*device_,
                  {.inputs = {y_input(), random_input({kRows, kCount}, 3)},
                   .operation =
                       [](Tape* tape, const std::vector<Var>& in) {
                         return autograd::accumulate_columns(tape, in[0], in[1], kFirst, -1.5f);
                       },
                   .definition =
                       [](const std::vector<Doubles>& in) {
                         Doubles y = in[0];
                         for (std::int64_t r = 0; r < kRows; ++r)
                           for (std::int64_t c = 0; c < kCount; ++c)
                             y[at(r * kWidth + kFirst + c)] -= 1.5 * in[1][at(r * kCount + c)];
                         return y;
                       },
                   .longest_sum = 2});
}

TEST_F(AdapterOperations, RowsOfAnotherMatrix) {
  const std::vector<std::int32_t> rows = {30, 2, 17};
  const Tensor index = Tensor::from_host(*device_, {3}, rows);
  check_gradients(*device_, {.inputs = {y_input(), random_input({3, kWidth}, 3)},
                             .operation =
                                 [&](Tape* tape, const std::vector<Var>& in) {
                                   return autograd::accumulate_rows(tape, in[0], in[1], index);
                                 },
                             .definition =
                                 [&](const std::vector<Doubles>& in) {
                                   Doubles y = in[0];
                                   for (std::int64_t i = 0; i < 3; ++i)
                                     for (std::int64_t c = 0; c < kWidth; ++c)
                                       y[at(rows[at(i)] * kWidth + c)] += in[1][at(i * kWidth + c)];
                                   return y;
                                 },
                             .longest_sum = 2});
}

// The norm is a constant to the gradient, as in DoRA.
TEST_F(AdapterOperations, ScaledColumns) {
  constexpr std::int64_t kFirst = 4, kCount = 9;
  std::vector<float> inverse;
  for (int c = 0; c < kCount; ++c) inverse.push_back(0.25f + 0.125f * static_cast<float>(c));
  check_gradients(*device_,
                  {.inputs = {y_input(), random_input({kCount}, 3)},
                   .operation =
                       [&](Tape* tape, const std::vector<Var>& in) {
                         std::vector<float> factor = to_host(in[1].value);
                         for (std::size_t c = 0; c < factor.size(); ++c) factor[c] *= inverse[c];
                         return autograd::scale_columns(tape, in[0], kFirst, in[1],
                                                        vector_of(inverse), vector_of(factor));
                       },
                   .definition =
                       [&](const std::vector<Doubles>& in) {
                         Doubles y = in[0];
                         for (std::int64_t r = 0; r < kRows; ++r)
                           for (std::int64_t c = 0; c < kCount; ++c)
                             y[at(r * kWidth + kFirst + c)] *= in[1][at(c)] * inverse[at(c)];
                         return y;
                       },
                   .longest_sum = kRows});
}

// Two parts of unlike rank and width, with and without dropout.
TEST_F(AdapterOperations, LowRankProducts) {
  constexpr std::int64_t kRank[2] = {3, 5}, kFirst[2] = {12, 1}, kCount[2] = {11, 6};
  for (const bool drops : {false, true}) {
    const kernels::Dropout drop[2] = {drops ? dropout(7) : kernels::Dropout{},
                                      drops ? dropout(8, 40) : kernels::Dropout{}};
    const Doubles ones(at(kRows * kInputs), 1.0);
    const Doubles masks[2] = {drops ? mask(drop[0]) : ones, drops ? mask(drop[1]) : ones};
    GradientCase test;
    test.inputs = {y_input(), x_input(), random_input({kRank[0] + kRank[1], kInputs}, 3),
                   random_input({kCount[0], kRank[0]}, 4), random_input({kCount[1], kRank[1]}, 5)};
    test.operation = [&](Tape* tape, const std::vector<Var>& in) {
      return autograd::low_rank_add(tape, in[0], in[1], in[2],
                                    {{in[3], kFirst[0], drop[0]}, {in[4], kFirst[1], drop[1]}},
                                    0.5f);
    };
    test.definition = [&](const std::vector<Doubles>& in) {
      Doubles y = in[0];
      std::int64_t first_row = 0;
      for (int p = 0; p < 2; ++p) {
        Doubles x = in[1];
        for (std::size_t i = 0; i < x.size(); ++i) x[i] *= masks[p][i];
        for (std::int64_t r = 0; r < kRows; ++r)
          for (std::int64_t k = 0; k < kRank[p]; ++k) {
            const double u = dot_row(x, r, in[2], first_row + k);
            for (std::int64_t c = 0; c < kCount[p]; ++c)
              y[at(r * kWidth + kFirst[p] + c)] += 0.5 * u * in[at(3 + p)][at(c * kRank[p] + k)];
          }
        first_row += kRank[p];
      }
      return y;
    };
    test.longest_sum = kInputs * (kRank[0] + kRank[1]);
    check_gradients(*device_, test);
    test.inputs[1].trained = false;
    check_gradients(*device_, test);
    test.inputs[0].trained = false;
    check_gradients(*device_, test);
  }
}

TEST_F(AdapterOperations, ALowRankProductOfAFrozenAKeepsNoInput) {
  const Var x(Tensor::zeros(*device_, {kRows, kInputs}), std::make_shared<autograd::GradSlot>());
  const auto trained = [&](Shape shape) {
    return Var(Tensor::zeros(*device_, shape), std::make_shared<autograd::GradSlot>());
  };
  for (const bool frozen : {true, false}) {
    Tape tape;
    const Var a = frozen ? Var(Tensor::zeros(*device_, {2, kInputs})) : trained({2, kInputs});
    autograd::low_rank_add(&tape, trained({kRows, kWidth}), x, a, {{trained({kWidth, 2}), 0, {}}},
                           1.0f);
    EXPECT_EQ(tape.saved_bytes().at("adapter"),
              sizeof(float) * at(kRows * (frozen ? 2 : 2 + kInputs)));
  }
}

// Ranges of B, as the query, key and value columns of a fused layer on a tensor rank.
TEST_F(AdapterOperations, ProjectedProducts) {
  constexpr std::int64_t kRank = 4, kFirst[2] = {13, 2}, kCount[2] = {8, 5};
  for (const bool drops : {false, true}) {
    const kernels::Dropout drop = drops ? dropout(9) : kernels::Dropout{};
    const Doubles masks = drops ? mask(drop) : Doubles(at(kRows * kInputs), 1.0);
    GradientCase test;
    test.inputs = {y_input(),
                   x_input(),
                   random_input({kRank, kInputs}, 3, false),
                   random_input({kRank}, 4),
                   random_input({kCount[0], kRank}, 5, false),
                   random_input({kCount[1], kRank}, 6, false),
                   random_input({kCount[0] + kCount[1]}, 7)};
    test.operation = [&](Tape* tape, const std::vector<Var>& in) {
      return autograd::projected_add(tape, in[0], in[1], in[2].value, in[3],
                                     {{in[4].value, kFirst[0]}, {in[5].value, kFirst[1]}}, in[6],
                                     drop);
    };
    test.definition = [&](const std::vector<Doubles>& in) {
      Doubles y = in[0], x = in[1];
      for (std::size_t i = 0; i < x.size(); ++i) x[i] *= masks[i];
      for (std::int64_t r = 0; r < kRows; ++r)
        for (std::int64_t k = 0; k < kRank; ++k) {
          const double u = in[3][at(k)] * dot_row(x, r, in[2], k);
          std::int64_t column = 0;
          for (int p = 0; p < 2; ++p)
            for (std::int64_t c = 0; c < kCount[p]; ++c, ++column)
              y[at(r * kWidth + kFirst[p] + c)] +=
                  in[6][at(column)] * u * in[at(4 + p)][at(c * kRank + k)];
        }
      return y;
    };
    test.longest_sum = kRows * kRank * kInputs;
    check_gradients(*device_, test);
  }
}

}  // namespace
}  // namespace fathom::test
