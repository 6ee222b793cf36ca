#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "core/tensor.h"

// Compares an operation on the tape, in f32, with its definition written in double: the value, and
// the gradient of sum(dy * y) with finite differences of the definition.

namespace fathom::test {

using Doubles = std::vector<double>;

/// `count` multiples of 1/64 in [-2, 2): exact in f32 and in bf16. `shift` moves all of them, which
/// keeps sums of two inputs away from the kink of relu.
Doubles sixty_fourths(std::int64_t count, std::uint32_t seed, double shift = 0);

std::vector<float> narrow(const Doubles& values);

/// An input of the operation under test.
struct Input {
  Shape shape;
  Doubles values;
  bool trained = true;
  DType dtype = DType::f32;
};

/// An input of random values.
Input random_input(Shape shape, std::uint32_t seed, bool trained = true, double shift = 0);

/// The operation under test; inputs come in the order of GradientCase::inputs.
using Operation = std::function<autograd::Var(autograd::Tape*, const std::vector<autograd::Var>&)>;
/// Its definition: the result as a flat array.
using Definition = std::function<Doubles(const std::vector<Doubles>&)>;

struct GradientCase {
  std::vector<Input> inputs;
  Operation operation;
  Definition definition;
  std::int64_t longest_sum = 1;  ///< terms of the longest sum in value or gradient
};

/// A device of guarded memory for one test.
std::unique_ptr<Device> make_test_device();

/// The error that f32 may make in numbers of this size.
double tolerance(const Doubles& expected, std::int64_t longest_sum);

/// Expects every element within tolerance; `what` names the array in failures.
void expect_close(const std::vector<float>& actual, const Doubles& expected, double bound,
                  const std::string& what);

/// Expects value and gradients to agree with the definition, whatever the slots of the inputs hold
/// beforehand: nothing, a gradient that others still look at, or a parameter's buffer. Also expects
/// that without a tape, or with every input frozen, nothing is recorded.
void check_gradients(Device& device, const GradientCase& test);

/// Slope of sum(dy * definition) along `direction` of one input, by central differences of fourth
/// order.
double difference_quotient(const Definition& definition, std::vector<Doubles> inputs,
                           const Doubles& dy, std::size_t input, const Doubles& direction);

}  // namespace fathom::test
