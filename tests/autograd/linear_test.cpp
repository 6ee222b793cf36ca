#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "autograd/operations.h"
#include "gradient_check.h"
#include "kernels/backend.h"

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

// On devices that round factors. A factor is off by at most u of itself, a product of two by 2 u +
// u^2 of itself, and a sum of products by as much of the sum of their magnitudes, beside the
// roundings of f32.
TEST(LinearPrecision, RoundsFactorsAndNothingElse) {
  const Sizes s{70, 64, 40};
  using kernels::Precision;
  for (const auto& [precision, u] :
       {std::pair{Precision::f32, 0.0}, {Precision::tf32, 0x1p-10}, {Precision::bf16, 0x1p-8}}) {
    if (precision != Precision::f32 && !kernels::backend().owns_memory) continue;  // the CPU
    const auto device =
        kernels::make_device({.limit_bytes = std::size_t{64} << 20, .precision = precision});
    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    const auto random = [&](std::int64_t count) {
      std::vector<float> values(at(count));
      for (float& value : values) value = normal(engine);
      return values;
    };
    const auto x = random(s.rows * s.inputs), w = random(s.outputs * s.inputs),
               bias = random(s.outputs), dy = random(s.rows * s.outputs);
    const auto slot = [] { return std::make_shared<autograd::GradSlot>(); };
    const Var in(Tensor::from_host(*device, {s.rows, s.inputs}, x), slot());
    const Var weight(Tensor::from_host(*device, {s.outputs, s.inputs}, w), slot());
    const Var added(Tensor::from_host(*device, {s.outputs}, bias), slot());
    Tape tape;
    const Var y = autograd::linear(&tape, in, weight, WeightLayout::out_in, added);
    const std::size_t width = precision == Precision::bf16 ? 2 : 4;
    EXPECT_EQ(tape.saved_bytes().at("linear"), width * x.size());
    y.slot->add(Tensor::from_host(*device, {s.rows, s.outputs}, dy));
    tape.backward();
    // sum over t of a[i, t] b[t, j], and the bound of its error.
    const auto expect = [&](const Tensor& got, std::int64_t m, std::int64_t n, std::int64_t k,
                            auto a, auto b, auto plus) {
      const std::vector<float> values = to_host(got);
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = plus(j), size = std::fabs(plus(j));
          for (std::int64_t t = 0; t < k; ++t) {
            sum += double{a(i, t)} * b(t, j);
            size += std::fabs(double{a(i, t)} * b(t, j));
          }
          const double bound = (2 * u + u * u + static_cast<double>(k + 1) * 0x1p-24) * size;
          ASSERT_NEAR(values[at(i * n + j)], sum, bound) << i << ", " << j;
        }
    };
    const auto none = [](std::int64_t) { return 0.0; };
    const auto x_at = [&](std::int64_t r, std::int64_t i) { return x[at(r * s.inputs + i)]; };
    const auto w_at = [&](std::int64_t o, std::int64_t i) { return w[at(o * s.inputs + i)]; };
    const auto dy_at = [&](std::int64_t r, std::int64_t o) { return dy[at(r * s.outputs + o)]; };
    const auto flip = [](auto f) {
      return [f](std::int64_t i, std::int64_t j) { return f(j, i); };
    };
    expect(y.value, s.rows, s.outputs, s.inputs, x_at, flip(w_at),
           [&](std::int64_t o) { return double{bias[at(o)]}; });
    expect(in.slot->grad(), s.rows, s.inputs, s.outputs, dy_at, w_at, none);
    expect(weight.slot->grad(), s.outputs, s.inputs, s.rows, flip(dy_at), x_at, none);
  }
}

}  // namespace
}  // namespace fathom::test
