#include <gtest/gtest.h>

#include "autograd/operations.h"
#include "gradient_check.h"

namespace fathom::test {
namespace {

using autograd::Tape;
using autograd::Var;
using autograd::WeightLayout;

struct Sizes {
  std::int64_t rows, inputs, outputs;
};

void PrintTo(const Sizes& s, std::ostream* out) {
  *out << s.rows << "x" << s.inputs << "->" << s.outputs;
}

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

Definition definition(const Sizes& s, WeightLayout layout, bool bias) {
  return [=](const std::vector<Doubles>& in) {
    Doubles y(at(s.rows * s.outputs));
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t o = 0; o < s.outputs; ++o) {
        double sum = bias ? in[2][at(o)] : 0.0;
        for (std::int64_t i = 0; i < s.inputs; ++i)
          sum += in[0][at(r * s.inputs + i)] *
                 in[1][at(layout == WeightLayout::out_in ? o * s.inputs + i : i * s.outputs + o)];
        y[at(r * s.outputs + o)] = sum;
      }
    return y;
  };
}

GradientCase make_case(const Sizes& s, WeightLayout layout, bool bias) {
  GradientCase test;
  const Shape weight =
      layout == WeightLayout::out_in ? Shape{s.outputs, s.inputs} : Shape{s.inputs, s.outputs};
  test.inputs = {random_input({s.rows, s.inputs}, 1), random_input(weight, 2)};
  if (bias) test.inputs.push_back(random_input({s.outputs}, 3));
  test.operation = [=](Tape* tape, const std::vector<Var>& in) {
    return autograd::linear(tape, in[0], in[1], layout, bias ? in[2] : Var());
  };
  test.definition = definition(s, layout, bias);
  test.longest_sum = std::max({s.rows, s.inputs, s.outputs});
  return test;
}

class Linear : public testing::TestWithParam<std::tuple<Sizes, WeightLayout>> {
 protected:
  Sizes sizes() const { return std::get<0>(GetParam()); }
  WeightLayout layout() const { return std::get<1>(GetParam()); }
  std::unique_ptr<Device> device_ = make_test_device();
};

TEST_P(Linear, AgreesWithItsDefinition) {
  check_gradients(*device_, make_case(sizes(), layout(), false));
}

TEST_P(Linear, WithBias) {
  check_gradients(*device_, make_case(sizes(), layout(), true));
}

TEST_P(Linear, WithFrozenWeightAndTrainedBias) {
  GradientCase test = make_case(sizes(), layout(), true);
  test.inputs[1].trained = false;
  check_gradients(*device_, test);
}

TEST_P(Linear, OfAFrozenInput) {
  GradientCase test = make_case(sizes(), layout(), false);
  test.inputs[0].trained = false;
  check_gradients(*device_, test);
}

// All values are exact in bf16, so that rounding the other operand to bf16 changes nothing.
TEST_P(Linear, WithFrozenBf16Weight) {
  GradientCase test = make_case(sizes(), layout(), true);
  test.inputs[1].trained = false;
  test.inputs[1].dtype = DType::bf16;
  check_gradients(*device_, test);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Linear,
    testing::Combine(testing::Values(Sizes{1, 1, 1}, Sizes{3, 5, 2}, Sizes{7, 33, 19},
                                     Sizes{33, 129, 65}, Sizes{5, 64, 257}, Sizes{70, 257, 3}),
                     testing::Values(WeightLayout::out_in, WeightLayout::in_out)));

TEST(LinearErrors, ABf16WeightCannotBeTrained) {
  const auto device = make_test_device();
  GradientCase test = make_case({2, 3, 4}, WeightLayout::out_in, false);
  Tape tape;
  const Var x(Tensor::zeros(*device, {2, 3}));
  const Var w(Tensor::zeros(*device, {4, 3}, DType::bf16), std::make_shared<autograd::GradSlot>());
  EXPECT_THROW(autograd::linear(&tape, x, w, WeightLayout::out_in), Error);
}

TEST(LinearMemory, AFrozenWeightKeepsNoInput) {
  const auto device = make_test_device();
  const Var w(Tensor::zeros(*device, {256, 512}));
  const Var trained(w.value, std::make_shared<autograd::GradSlot>());
  for (const bool frozen : {true, false}) {
    Tape tape;
    const std::size_t before = device->memory().in_use;
    Var y;
    {
      const Var x(Tensor::zeros(*device, {64, 512}), std::make_shared<autograd::GradSlot>());
      y = autograd::linear(&tape, x, frozen ? w : trained, WeightLayout::out_in);
    }
    const std::size_t input = frozen ? 0 : 64 * 512 * sizeof(float);
    EXPECT_EQ(tape.saved_bytes().at("linear"), input);
    // Not only in the accounts: the arena has it back.
    EXPECT_EQ(device->memory().in_use, before + y.value.bytes() + input);
  }
}

}  // namespace
}  // namespace fathom::test
