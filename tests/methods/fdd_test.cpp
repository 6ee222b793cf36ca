// FDD's trajectory and derivative on one rank: against the definition, and golden values.

#include "methods/distill/fdd.h"

#include "fdd_case.h"
#include "golden_states.h"
#include "kernels/gemm.h"
#include "tests/support/expect_error.h"
#include "train/collect.h"

namespace fathom::test {
namespace {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;
using fathom::testing::expect_error;
using kernels::DynamicsLoss;
using methods::distill::fdd_loss;
using methods::distill::KeyLayerStates;
using Floats = std::vector<float>;

class Fdd : public ::testing::Test {
 protected:
  void expect_agrees(const FddSizes& s, const DynamicsLoss& loss) {
    const FddValues values = fdd_values(s);
    const DefinedFdd expected = defined_fdd(s, loss.temperature, values);
    const Definition definition = [&](const std::vector<Doubles>& in) {
      const DefinedFdd sums = defined_fdd(
          s, loss.temperature, {in[0], in[1], values.teacher_states, values.teacher_head});
      return Doubles{loss.trajectory_weight * sums.trajectory +
                     loss.derivative_weight * sums.derivative};
    };
    for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{3}, s.rows}) {
      SCOPED_TRACE("chunks of " + std::to_string(chunk));
      const FddOutcome got = run_fdd(*device_, nullptr, s, loss, chunk, values);
      const double bound = tolerance({expected.trajectory, expected.derivative, 1.0}, s.vocab);
      EXPECT_NEAR(got.sums.trajectory, expected.trajectory, bound);
      EXPECT_NEAR(got.sums.derivative, loss.derivative_weight == 0 ? 0 : expected.derivative,
                  bound);
      EXPECT_EQ(got.sums.tokens, s.rows);
      expect_gradient(definition, {values.states, values.head}, 0, got.states, s.vocab);
      expect_gradient(definition, {values.states, values.head}, 1, got.head,
                      std::max(s.vocab, s.rows * s.layers));
    }
  }

  void expect_gradient(const Definition& definition, const std::vector<Doubles>& inputs,
                       std::size_t input, const Floats& gradient, std::int64_t longest_sum) {
    ASSERT_EQ(gradient.size(), inputs[input].size());
    const double bound = tolerance(Doubles(gradient.begin(), gradient.end()), longest_sum);
    const std::size_t step = std::max<std::size_t>(1, gradient.size() / 30);
    for (std::size_t i = 0; i < gradient.size(); i += step) {
      Doubles direction(gradient.size(), 0.0);
      direction[i] = 1;
      EXPECT_NEAR(gradient[i], difference_quotient(definition, inputs, {1.0}, input, direction),
                  bound)
          << "input " << input << ", element " << i;
    }
    Doubles direction(gradient.size());
    double along = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      direction[i] = i * 2654435761u % 7 < 3 ? 1.0 : -1.0;
      along += direction[i] * gradient[i];
    }
    EXPECT_NEAR(along, difference_quotient(definition, inputs, {1.0}, input, direction),
                bound * std::sqrt(static_cast<double>(gradient.size())))
        << "input " << input;
  }

  std::unique_ptr<Device> device_ = make_test_device();
};

constexpr FddSizes kSizes[] = {{2, 4, 5, 7, 3, 7},
                               {3, 7, 4, 33, 9, 33},
                               {4, 5, 8, 65, 6, 65},
                               {3, 6, 5, 19, 4, 17},
                               {2, 6, 5, 17, 4, 19}};

TEST_F(Fdd, Trajectory) {
  for (const FddSizes& s : kSizes) {
    SCOPED_TRACE(s.vocab);
    for (const float temperature : {5.0f, 1.0f})
      expect_agrees(s, {.trajectory_weight = 1.25f, .temperature = temperature});
  }
  expect_agrees({1, 5, 4, 33, 6, 33}, {.trajectory_weight = 1});
}

TEST_F(Fdd, Derivative) {
  for (const FddSizes& s : kSizes) {
    SCOPED_TRACE(s.vocab);
    expect_agrees(s, {.derivative_weight = 0.75f});
  }
}

TEST_F(Fdd, BothTerms) {
  for (const FddSizes& s : kSizes) {
    SCOPED_TRACE(s.vocab);
    expect_agrees(s, {.trajectory_weight = 0.5f, .derivative_weight = 2});
  }
}

TEST_F(Fdd, TrajectoryOfTheTeacherItselfIsExactlyZero) {
  const FddSizes s{3, 6, 16, 257, 16, 257};
  FddValues values = fdd_values(s);
  values.teacher_states = values.states;
  values.teacher_head = values.head;
  const FddOutcome alone = run_fdd(*device_, nullptr, s, {.trajectory_weight = 1}, 4, values);
  EXPECT_EQ(alone.sums.trajectory, 0);
  EXPECT_EQ(alone.states, Floats(alone.states.size(), 0.0f));
  EXPECT_EQ(alone.head, Floats(alone.head.size(), 0.0f));
  // A cosine of 1 is a quotient: it and its gradient are zero to rounding.
  const FddOutcome both =
      run_fdd(*device_, nullptr, s, {.trajectory_weight = 1, .derivative_weight = 1}, 4, values);
  EXPECT_NEAR(both.sums.derivative, 0, 12 * 257 * 6e-8);
  for (const float g : both.states) ASSERT_NEAR(g, 0, 257 * 6e-8);
}

// Two key layers with the same states: the student's distribution does not change, so its change
// has no direction.
TEST_F(Fdd, OfAStudentThatStandsStillIsFinite) {
  const FddSizes s{2, 3, 4, 9, 4, 9};
  FddValues values = fdd_values(s);
  std::copy_n(values.states.begin(), 12, values.states.begin() + 12);
  const FddOutcome got = run_fdd(*device_, nullptr, s, {.derivative_weight = 1}, 3, values);
  EXPECT_NEAR(got.sums.derivative, 3, 1e-6);
  for (const float g : got.states) ASSERT_TRUE(std::isfinite(g));
}

TEST_F(Fdd, LeavesUncountedEntriesAlone) {
  const FddSizes s{3, 6, 5, 19, 4, 17};
  const FddOutcome got = run_fdd(
      *device_, nullptr, s, {.trajectory_weight = 1, .derivative_weight = 1}, 3, fdd_values(s));
  EXPECT_EQ(Floats(got.head.end() - 2 * 5, got.head.end()), Floats(10, 0.0f));
}

TEST_F(Fdd, RefusesADerivativeOfOneLayer) {
  const FddSizes s{1, 3, 4, 9, 4, 9};
  expect_error(
      ErrorKind::config,
      [&] { run_fdd(*device_, nullptr, s, {.derivative_weight = 1}, 3, fdd_values(s)); },
      "fdd.derivative_weight", "name two or more in fdd.student_layers");
}

TEST_F(Fdd, OfNoRowsIsNothing) {
  const Var head(Tensor::zeros(*device_, {7, 4}));
  const KeyLayerStates none{{Var(Tensor::empty(*device_, {0, 4}))}, &head};
  const auto sums =
      fdd_loss(nullptr, nullptr, {.loss = {.trajectory_weight = 1}, .vocab = 7}, none, none);
  EXPECT_EQ(sums.tokens, 0);
  EXPECT_EQ(sums.trajectory, 0);
}

TEST_F(Fdd, WithoutATapeOnlyValuesAreMade) {
  const FddSizes s{2, 3, 4, 9, 4, 9};
  const FddValues values = fdd_values(s);
  const DynamicsLoss loss{.trajectory_weight = 1, .derivative_weight = 1};
  const Var head(Tensor::from_host(*device_, {9, 4}, narrow(values.head)),
                 std::make_shared<GradSlot>(Tensor::zeros(*device_, {9, 4})));
  const auto states = [&](const Doubles& all) {
    std::vector<Var> list;
    for (std::int64_t k = 0; k < 2; ++k)
      list.emplace_back(
          Tensor::from_host(*device_, {3, 4},
                            narrow({all.begin() + 12 * k, all.begin() + 12 * (k + 1)})),
          std::make_shared<GradSlot>());
    return list;
  };
  const Var teacher_head(Tensor::from_host(*device_, {9, 4}, narrow(values.teacher_head)));
  const KeyLayerStates student{states(values.states), &head};
  const KeyLayerStates teacher{states(values.teacher_states), &teacher_head};
  const auto sums = fdd_loss(nullptr, nullptr, {.loss = loss, .vocab = 9}, student, teacher);
  EXPECT_EQ(sums.trajectory, run_fdd(*device_, nullptr, s, loss, 3, values).sums.trajectory);
  EXPECT_EQ(to_host(head.slot->grad()), Floats(36, 0.0f));
  EXPECT_FALSE(student.states[0].slot->grad().defined());
}

// Logits exist for the rows of a chunk only, of both models at all key layers.
TEST_F(Fdd, HoldsTheLogitsOfOneChunk) {
  const FddSizes s{3, 64, 8, 4096, 8, 4096};
  const FddValues values = fdd_values(s);
  device_->reset_peak();
  const std::size_t before = device_->memory().in_use;
  run_fdd(*device_, nullptr, s, {.trajectory_weight = 1, .derivative_weight = 1}, 8, values);
  const std::size_t logits = 2 * 3 * 8 * 4096 * sizeof(float);
  const std::size_t heads = 3 * 4096 * 8 * sizeof(float), states = 9 * 64 * 8 * sizeof(float);
  EXPECT_LT(device_->memory().peak - before, logits + heads + states + 64 * 1024);
}

// Every value and gradient of the golden case, through the whole student.
TEST_F(Fdd, GoldenValues) {
  GoldenCase golden(*device_, "fdd-llama");
  Tape tape;
  const auto all_student = golden.student.states(&tape, golden.rows);
  const auto all_teacher = golden.teacher.states(nullptr, golden.rows);
  KeyLayerStates student{{}, &golden.student.stage().head()},
      teacher{{}, &golden.teacher.stage().head()};
  for (const auto& pair : golden.json.at("options").at("key_layers")) {
    student.states.push_back(all_student.at(pair.at(0)));
    teacher.states.push_back(all_teacher.at(pair.at(1)));
  }
  const auto expect_logits = [&](const KeyLayerStates& model, const std::string& name) {
    const Tensor& state = model.states[0].value;
    const Tensor z = Tensor::empty(*device_, {state.rows(), model.head->value.rows()});
    kernels::gemm(state, kernels::Trans::no, model.head->value, kernels::Trans::yes, z);
    expect_output(to_host(z), golden.expected.read_f32(name), name);
  };
  expect_logits(student, "z_student_0");
  expect_logits(teacher, "z_teacher_0");

  const auto tokens = static_cast<float>(golden.rows.count);
  const auto sums = fdd_loss(
      &tape, nullptr,
      {.loss = {.trajectory_weight = 1 / (3 * tokens), .derivative_weight = 1 / (2 * tokens)},
       .vocab = golden.student.stage().spec().vocab,
       .chunk_rows = 16},
      student, teacher);
  tape.backward();
  const double trajectory = golden.json.at("terms").at("trajectory");
  const double derivative = golden.json.at("terms").at("derivative");
  EXPECT_NEAR(sums.trajectory / (3 * tokens), trajectory, 2e-5 * trajectory);
  EXPECT_NEAR(sums.derivative / (2 * tokens), derivative, 2e-5 * derivative);

  std::vector<train::Fragment> fragments;
  for (const model::Parameter& parameter : golden.student.stage().parameters().parameters())
    train::append_fragments(parameter, parameter.grad(), "grad.student." + parameter.name,
                            fragments);
  const auto alone = comm::self_communicator();
  const auto gradients = train::collect(*alone, fragments);
  const double total = golden.json.at("grad_norm");
  ASSERT_EQ(gradients.size(), golden.gradients.tensors().size());
  for (const auto& [name, entry] : golden.gradients.tensors())
    test::expect_gradient(gradients.at(name).values, golden.gradients.read_f32(name), total, name);
}

}  // namespace
}  // namespace fathom::test
