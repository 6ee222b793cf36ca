#include "gradient_check.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "tests/support/test_device.h"

namespace fathom::test {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;

namespace {

// Elements of a gradient that are compared one by one. The rest enter through random directions.
constexpr std::size_t kElements = 40;
constexpr int kDirections = 3;

// What an input's slot holds before the backward pass. With looked_at the test also holds the
// gradient of the result.
enum class SlotState { empty, looked_at, parameter };

double dot(const Doubles& a, const Doubles& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

std::vector<Doubles> values_of(const GradientCase& test) {
  std::vector<Doubles> values;
  for (const Input& input : test.inputs) values.push_back(input.values);
  return values;
}

Tensor upload(Device& device, const Input& input) {
  const Tensor tensor = Tensor::empty(device, input.shape, input.dtype);
  copy_from_host(tensor, narrow(input.values));
  return tensor;
}

// One run of the operation: inputs, slots as `state` says, value and gradients.
class Run {
 public:
  Run(Device& device, const GradientCase& test, SlotState state) : state_(state) {
    for (std::size_t i = 0; i < test.inputs.size(); ++i) {
      const Input& input = test.inputs[i];
      Var var(upload(device, input));
      before_.push_back(sixty_fourths(input.shape.elements(), 900 + static_cast<unsigned>(i)));
      held_.emplace_back();
      if (input.trained) {
        held_.back() = Tensor::from_host(device, input.shape, narrow(before_.back()));
        if (state == SlotState::parameter) {
          var.slot = std::make_shared<GradSlot>(held_.back());
        } else {
          var.slot = std::make_shared<GradSlot>();
          if (state == SlotState::looked_at) var.slot->add(held_.back());
        }
      }
      inputs_.push_back(std::move(var));
    }
    output_ = test.operation(&tape_, inputs_);
  }

  std::vector<float> value() const { return to_host(output_.value); }

  void backward(Device& device, const Doubles& dy) {
    ASSERT_TRUE(output_.needs_grad());
    Tensor gradient = Tensor::from_host(device, output_.value.shape(), narrow(dy));
    const Tensor held = state_ == SlotState::looked_at ? gradient : Tensor();
    output_.slot->add(std::move(gradient));
    tape_.backward();
    if (held.defined()) {
      EXPECT_EQ(to_host(held), narrow(dy)) << "the result's gradient, which others hold";
    }
  }

  // What the backward pass added for input i.
  std::vector<float> gradient(std::size_t i) const {
    std::vector<float> gradient = to_host(inputs_[i].slot->grad());
    if (state_ == SlotState::empty) return gradient;
    for (std::size_t k = 0; k < gradient.size(); ++k)
      gradient[k] -= static_cast<float>(before_[i][k]);
    return gradient;
  }

  // A gradient that others look at must not change under them.
  void expect_held_untouched() const {
    if (state_ != SlotState::looked_at) return;
    for (std::size_t i = 0; i < held_.size(); ++i)
      if (held_[i].defined()) {
        EXPECT_EQ(to_host(held_[i]), narrow(before_[i])) << "input " << i;
      }
  }

 private:
  SlotState state_;
  Tape tape_;
  std::vector<Var> inputs_;
  std::vector<Doubles> before_;
  std::vector<Tensor> held_;
  Var output_;
};

// f32 gradient of input i against the definition: single elements, and whole directions.
void expect_gradient(const GradientCase& test, const Doubles& dy, std::size_t i,
                     const std::vector<float>& gradient) {
  const std::string what = "gradient of input " + std::to_string(i);
  const std::vector<Doubles> values = values_of(test);
  const std::size_t size = values[i].size();
  ASSERT_EQ(gradient.size(), size) << what;
  const double bound = tolerance(Doubles(gradient.begin(), gradient.end()), test.longest_sum);
  ASSERT_TRUE(std::isfinite(bound)) << what;
  std::mt19937 random(static_cast<unsigned>(17 + i));
  for (std::size_t k = 0; k < std::min(size, kElements); ++k) {
    const std::size_t element = size <= kElements ? k : random() % size;
    Doubles direction(size, 0.0);
    direction[element] = 1;
    EXPECT_NEAR(gradient[element], difference_quotient(test.definition, values, dy, i, direction),
                bound)
        << what << ", element " << element;
  }
  for (int d = 0; d < kDirections; ++d) {
    Doubles direction(size);
    for (double& x : direction) x = random() % 2 == 0 ? 1.0 : -1.0;
    EXPECT_NEAR(dot(Doubles(gradient.begin(), gradient.end()), direction),
                difference_quotient(test.definition, values, dy, i, direction),
                bound * std::sqrt(static_cast<double>(size)))
        << what << ", direction " << d;
  }
}

void expect_records_nothing(Device& device, GradientCase test) {
  std::vector<Var> inputs;
  for (Input& input : test.inputs) {
    input.trained = false;
    inputs.emplace_back(upload(device, input));
  }
  Tape tape;
  EXPECT_FALSE(test.operation(&tape, inputs).needs_grad());
  EXPECT_TRUE(tape.empty());
}

}  // namespace

Doubles sixty_fourths(std::int64_t count, std::uint32_t seed, double shift) {
  std::mt19937 random(seed);
  Doubles values(static_cast<std::size_t>(count));
  for (double& value : values) value = (static_cast<double>(random() % 256) - 128) / 64 + shift;
  return values;
}

std::vector<float> narrow(const Doubles& values) {
  return {values.begin(), values.end()};
}

Input random_input(Shape shape, std::uint32_t seed, bool trained, double shift) {
  return {shape, sixty_fourths(shape.elements(), seed, shift), trained, DType::f32};
}

std::unique_ptr<Device> make_test_device() {
  return make_test_device(std::size_t{256} << 20);
}

// Inputs are of order one. A sum of n such terms in f32 is off by about sqrt(n) roundings of the
// partial sums, which stay below the largest result or sqrt(n); an operation does a handful of such
// roundings (and the approximations of exp, tanh and erf are good to a few). Hence eight roundings
// of f32 for each of sqrt(n) terms, relative to one plus the largest value.
double tolerance(const Doubles& expected, std::int64_t longest_sum) {
  constexpr double kRounding = 0x1p-24;
  double largest = 1;
  for (const double value : expected) largest = std::max(largest, std::fabs(value));
  return 8 * kRounding * std::sqrt(static_cast<double>(longest_sum)) * (1 + largest);
}

void expect_close(const std::vector<float>& actual, const Doubles& expected, double bound,
                  const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  std::size_t worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::fabs(actual[i] - expected[i]);
    if (difference <= largest) continue;  // false for NaN
    worst = i;
    largest = std::isnan(difference) ? INFINITY : difference;
  }
  EXPECT_LE(largest, bound) << what << ", element " << worst << ": " << actual[worst] << " for "
                            << expected[worst];
}

double difference_quotient(const Definition& definition, std::vector<Doubles> inputs,
                           const Doubles& dy, std::size_t input, const Doubles& direction) {
  // Truncation is h^4, rounding 1e-16 / h: both near 1e-12 of the value, far below f32.
  constexpr double h = 1e-3;
  const Doubles centre = inputs[input];
  const auto at = [&](double distance) {
    for (std::size_t i = 0; i < centre.size(); ++i)
      inputs[input][i] = centre[i] + distance * direction[i];
    return dot(definition(inputs), dy);
  };
  return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
}

void check_gradients(Device& device, const GradientCase& test) {
  const Doubles expected = test.definition(values_of(test));
  const Doubles dy = sixty_fourths(static_cast<std::int64_t>(expected.size()), 31);
  const double bound = tolerance(expected, test.longest_sum);
  for (const SlotState state : {SlotState::empty, SlotState::looked_at, SlotState::parameter}) {
    SCOPED_TRACE("slot state " + std::to_string(static_cast<int>(state)));
    Run run(device, test, state);
    expect_close(run.value(), expected, bound, "value");
    run.backward(device, dy);
    run.expect_held_untouched();
    for (std::size_t i = 0; i < test.inputs.size(); ++i)
      if (test.inputs[i].trained) expect_gradient(test, dy, i, run.gradient(i));
    if (testing::Test::HasFailure()) return;
  }
  std::vector<Var> inputs;
  for (const Input& input : test.inputs) {
    inputs.emplace_back(upload(device, input));
    inputs.back().slot = std::make_shared<GradSlot>();
  }
  const Var inference = test.operation(nullptr, inputs);
  EXPECT_FALSE(inference.needs_grad());
  expect_close(to_host(inference.value), expected, bound, "value without a tape");
  expect_records_nothing(device, test);
}

}  // namespace fathom::test
