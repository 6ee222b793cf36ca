#include "autograd/mixture_operations.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "autograd/operations.h"
#include "gradient_check.h"

namespace fathom::test {
namespace {

using autograd::Tape;
using autograd::Var;

constexpr std::int64_t kRows = 37, kParts = 5, kWidth = 19;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// Softmax over the `kept` largest of each row, the first of equal ones, by sorting.
Doubles sorted_softmax(const Doubles& scores, std::int64_t kept) {
  Doubles weights(scores.size(), 0.0);
  for (std::int64_t r = 0; r < kRows; ++r) {
    std::vector<std::int64_t> order(at(kParts));
    std::iota(order.begin(), order.end(), r * kParts);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return scores[at(a)] > scores[at(b)]; });
    double sum = 0;
    for (std::int64_t i = 0; i < kept; ++i) sum += std::exp(scores[at(order[at(i)])]);
    for (std::int64_t i = 0; i < kept; ++i)
      weights[at(order[at(i)])] = std::exp(scores[at(order[at(i)])]) / sum;
  }
  return weights;
}

// Scores at least 1/64 apart in a row, so that no finite difference changes which are kept.
Input distinct_scores() {
  Input input = random_input({kRows, kParts}, 11);
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t j = 0; j < kParts; ++j)
      input.values[at(r * kParts + j)] =
          std::floor(input.values[at(r * kParts + j)] * 8) / 8 + static_cast<double>(j) / 64;
  return input;
}

class MixtureOperations : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_test_device();
};

TEST_F(MixtureOperations, TopKSoftmax) {
  for (const std::int64_t kept : {std::int64_t{1}, std::int64_t{2}, std::int64_t{4}, kParts}) {
    SCOPED_TRACE(kept);
    check_gradients(*device_, {.inputs = {distinct_scores()},
                               .operation =
                                   [kept](Tape* tape, const std::vector<Var>& in) {
                                     return autograd::topk_softmax(tape, in[0], kept);
                                   },
                               .definition =
                                   [kept](const std::vector<Doubles>& in) {
                                     return sorted_softmax(in[0], kept);
                                   },
                               .longest_sum = kParts});
  }
}

// Of equal scores the shallower layer is kept.
TEST_F(MixtureOperations, TiesGoToTheFirst) {
  const std::vector<float> scores = {1, 3, 3, 3, 0};
  const Var in(Tensor::from_host(*device_, {1, 5}, scores));
  EXPECT_EQ(to_host(autograd::topk_softmax(nullptr, in, 2).value),
            (std::vector<float>{0, 0.5f, 0.5f, 0, 0}));
  EXPECT_EQ(to_host(autograd::topk_softmax(nullptr, in, 1).value),
            (std::vector<float>{0, 1, 0, 0, 0}));
}

TEST_F(MixtureOperations, Mixture) {
  const auto mixture = [](Tape* tape, const std::vector<Var>& in) {
    return autograd::mixture(tape, in[0], {in[1], in[2], in[3]});
  };
  const auto definition = [](const std::vector<Doubles>& in) {
    Doubles y(at(kRows * kWidth), 0.0);
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t c = 0; c < kWidth; ++c)
        for (std::int64_t j = 0; j < 3; ++j)
          y[at(r * kWidth + c)] += in[0][at(r * 3 + j)] * in[at(j + 1)][at(r * kWidth + c)];
    return y;
  };
  for (int frozen = -1; frozen < 4; ++frozen) {  // one input frozen, or none
    SCOPED_TRACE(frozen);
    std::vector<Input> inputs = {random_input({kRows, 3}, 1, frozen != 0)};
    for (int j = 1; j < 4; ++j)
      inputs.push_back(
          random_input({kRows, kWidth}, static_cast<std::uint32_t>(1 + j), frozen != j));
    check_gradients(
        *device_,
        {.inputs = inputs, .operation = mixture, .definition = definition, .longest_sum = kWidth});
  }
}

// Some terms of a sum, behind others: the weights of the rest get an exact zero.
TEST_F(MixtureOperations, AddToMixture) {
  constexpr std::int64_t kFirst = 1, kAll = 4;
  const auto operation = [](Tape* tape, const std::vector<Var>& in) {
    return autograd::add_to_mixture(tape, in[1], in[0], kFirst, {in[2], in[3]});
  };
  const auto definition = [](const std::vector<Doubles>& in) {
    Doubles y = in[1];
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t c = 0; c < kWidth; ++c)
        for (std::int64_t j = 0; j < 2; ++j)
          y[at(r * kWidth + c)] +=
              in[0][at(r * kAll + kFirst + j)] * in[at(j + 2)][at(r * kWidth + c)];
    return y;
  };
  for (int frozen = -1; frozen < 4; ++frozen) {
    SCOPED_TRACE(frozen);
    std::vector<Input> inputs = {random_input({kRows, kAll}, 1, frozen != 0)};
    for (int j = 1; j < 4; ++j)
      inputs.push_back(
          random_input({kRows, kWidth}, static_cast<std::uint32_t>(1 + j), frozen != j));
    check_gradients(*device_, {.inputs = inputs,
                               .operation = operation,
                               .definition = definition,
                               .longest_sum = kWidth});
  }
}

// A part that can be made again is not kept, and gives the weights the same gradient.
TEST_F(MixtureOperations, RemadePartsAreNotKept) {
  const auto run = [&](bool remakes, Tape& tape) {
    tape.set_remakes(remakes);
    const auto values = [&](Shape shape, std::uint32_t seed) {
      const auto numbers = narrow(sixty_fourths(shape.elements(), seed));
      return Var(Tensor::from_host(*device_, shape, numbers),
                 std::make_shared<autograd::GradSlot>());
    };
    const Var weights = values({kRows, 2}, 1), x = values({kRows, kWidth}, 2);
    const Var scale = values({kWidth}, 3), y = values({kRows, kWidth}, 4);
    const Var normed = autograd::norm(&tape, kernels::NormKind::rms, 1e-5f, x, scale, {});
    const Var mixed = autograd::mixture(&tape, weights, {normed, y});
    mixed.slot->add(values({kRows, kWidth}, 5).value);
    tape.backward();
    return to_host(weights.slot->grad());
  };
  Tape kept, remade;
  EXPECT_EQ(run(false, kept), run(true, remade));
  const std::size_t part = kRows * kWidth * sizeof(float);
  EXPECT_EQ(kept.saved_bytes().at("mixture"), remade.saved_bytes().at("mixture") + part);
}

}  // namespace
}  // namespace fathom::test
