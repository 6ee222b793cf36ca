// DoRA under dropout: y = W x + (c - 1) W x' + c s B A x' with one mask for both products, the
// norms in c = m / ||W + s B A|| held fixed in the backward pass. Values by hand.

#include <gtest/gtest.h>

#include "methods/adapters/linear_adapters.h"
#include "methods/adapters/parameter_names.h"
#include "tests/support/test_device.h"

namespace fathom::methods::adapters {
namespace {

using autograd::Tape;
using autograd::Var;

Tensor upload(Device& device, Shape shape, const std::vector<float>& values) {
  return Tensor::from_host(device, shape, values);
}

/// W = [3 4; 0 5], A = [1 0], B = [2; 0], s = 0.5, m = (10, 5), on x = (1, 2).
class DroppedDora : public ::testing::Test {
 protected:
  DroppedDora() {
    spec_.kind = Kind::dora;
    spec_.rank = 1;
    spec_.alpha = 0.5;
    spec_.dropout = 0.5;
    weights_.weight = Var(upload(*device_, {2, 2}, {3, 4, 0, 5}));
    site_ = {.inputs = 2,
             .inputs_here = 2,
             .parts = {{.module = "m", .outputs = 2, .ranges = {{0, 2}}}},
             .weights = &weights_};
    adapter_ = make_low_rank(spec_, site_, {0}, true, nullptr, parameters_);
    parameters_.mark_bucket();
    parameters_.allocate(
        *device_, [](const std::string&) { return true; }, DType::f32);
    copy_from_host(find("lora_A.weight").value, std::vector<float>{1, 0});
    copy_from_host(find("lora_B.weight").value, std::vector<float>{2, 0});
    copy_from_host(find("lora_magnitude_vector").value, std::vector<float>{10, 5});
    adapter_->weights_changed();
    const std::vector<std::int32_t> zero = {0};
    auto rows = std::make_shared<autograd::TokenRows>();
    rows->positions = rows->samples =
        Tensor::from_host(*device_, {1}, std::span<const std::int32_t>(zero));
    pass_.tape = &tape_;
    pass_.rows = rows;
  }

  const model::Parameter& find(const std::string& name) const {
    return *parameters_.find(kAdapterPrefix + "m." + name);
  }

  // Seeds until the mask leaves `wanted` of x.
  void drop_to(const std::vector<float>& wanted) {
    for (pass_.dropout.seed = 1; pass_.dropout.seed < 100; ++pass_.dropout.seed) {
      const Var dropped =
          autograd::residual(nullptr, {}, x_, {}, adapter_dropout(pass_, spec_, site_, 0));
      if (to_host(dropped.value) == wanted) return;
    }
    FAIL() << "no seed gives this mask";
  }

  // W x and the adapter; then back from dy = (1, 1).
  std::vector<float> apply() {
    const Var y = autograd::linear(&tape_, x_, weights_.weight, autograd::WeightLayout::out_in);
    const Var z = adapter_->apply(pass_, &tape_, x_, y);
    const std::vector<float> values = to_host(z.value);
    z.slot->add(upload(*device_, {1, 2}, {1, 1}));
    tape_.backward();
    return values;
  }

  static void expect_near(const std::vector<float>& actual, const std::vector<double>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    // A few roundings of f32 in numbers up to 24.
    for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5) << i;
  }

  std::unique_ptr<Device> device_ = test::make_test_device(std::size_t{1} << 24);
  AdapterSpec spec_;
  model::LinearWeights weights_;
  model::LinearSite site_;
  model::ParameterSet parameters_;
  std::unique_ptr<LinearAdapterPart> adapter_;
  Tape tape_;
  model::Pass pass_;
  Var x_{upload(*device_, {1, 2}, {1, 2})};
};

// V = [4 4; 0 5], c = (10 / sqrt 32, 1). A product with W of the undropped x would give 19.445437.
TEST_F(DroppedDora, TheSecondInputIsKept) {
  ASSERT_NO_FATAL_FAILURE(drop_to({0, 4}));
  expect_near(apply(), {23.284271, 10});
  expect_near(to_host(find("lora_magnitude_vector").grad()), {2.828427, 4});  // V x' / ||V||
  expect_near(to_host(find("lora_B.weight").grad()), {0, 0});                 // c s A x'
  expect_near(to_host(find("lora_A.weight").grad()), {0, 7.071068});          // s B^T c x'
}

TEST_F(DroppedDora, TheFirstInputIsKept) {
  ASSERT_NO_FATAL_FAILURE(drop_to({2, 0}));
  expect_near(apply(), {19.142136, 10});
  expect_near(to_host(find("lora_magnitude_vector").grad()), {1.414214, 0});
  expect_near(to_host(find("lora_B.weight").grad()), {1.767767, 1});
  expect_near(to_host(find("lora_A.weight").grad()), {3.535534, 0});
}

}  // namespace
}  // namespace fathom::methods::adapters
