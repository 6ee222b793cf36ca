// The head fused with the token losses, on one rank.

#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "loss_definition.h"
#include "model/head.h"
#include "tests/autograd/gradient_check.h"

namespace fathom::test {
namespace {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;
using kernels::Divergence;
using kernels::TokenLoss;
using Floats = std::vector<float>;

std::vector<Doubles> make_values(const LossSizes& s) {
  std::vector<Doubles> values{sixty_fourths(s.rows * s.width, 1),
                              sixty_fourths(s.vocab * s.width, 2)};
  if (s.teacher_vocab > 0) {
    values.push_back(sixty_fourths(s.rows * s.teacher_width, 3));
    values.push_back(sixty_fourths(s.teacher_vocab * s.teacher_width, 4));
  }
  return values;
}

struct Outcome {
  model::LossSums sums;
  Floats states, head;  // gradients; empty when not trained
  model::LabelLogProbs log_probs;
};

struct Trained {
  bool states = true, head = true;
};

class HeadLoss : public testing::Test {
 protected:
  Tensor upload(const Doubles& values, std::int64_t rows, std::int64_t columns) {
    return Tensor::from_host(*device_, {rows, columns}, narrow(values));
  }

  Outcome run(const LossCase& c, std::int64_t chunk_rows, const std::vector<Doubles>& values,
              Trained trained = {}, bool log_probs = false) {
    const LossSizes& s = c.sizes;
    Var states(upload(values[0], s.rows, s.width)), head(upload(values[1], s.vocab, s.width));
    if (trained.states) states.slot = std::make_shared<GradSlot>();
    if (trained.head)
      head.slot = std::make_shared<GradSlot>(Tensor::zeros(*device_, {s.vocab, s.width}));
    Var teacher_head;
    model::HeadInput teacher;
    if (s.teacher_vocab > 0) {
      teacher_head = Var(upload(values[3], s.teacher_vocab, s.teacher_width));
      teacher = {Var(upload(values[2], s.rows, s.teacher_width)), &teacher_head};
    }
    model::HeadLoss options{
        .loss = c.loss, .first_vocab = 0, .vocab = s.counted(), .chunk_rows = chunk_rows};
    if (!c.row_weights.empty())
      options.row_weights = Tensor::from_host(*device_, {s.rows, 2}, c.row_weights);
    if (!c.row_alpha.empty())
      options.row_alpha = Tensor::from_host(*device_, {s.rows}, c.row_alpha);
    Tape tape;
    Outcome outcome;
    outcome.sums = model::head_loss(&tape, nullptr, options, {states, &head}, teacher,
                                    Tensor::from_host(*device_, {s.rows}, c.labels),
                                    log_probs ? &outcome.log_probs : nullptr);
    tape.backward();
    if (trained.states) outcome.states = to_host(states.slot->grad());
    if (trained.head) outcome.head = to_host(head.slot->grad());
    return outcome;
  }

  // The size of what a logit's gradient is made of before parts of it cancel: a divergence's are
  // probabilities times logarithms of probabilities, which are as large as the logits are apart.
  static double largest_term(const LossCase& c, const std::vector<Doubles>& values) {
    const LossSizes& s = c.sizes;
    double apart = 0;
    const auto widen = [&](const Doubles& states, const Doubles& head, std::int64_t width) {
      for (std::int64_t r = 0; r < s.rows; ++r) {
        const Doubles logits = logits_of_row(states, head, r, width, s.counted());
        const auto [least, most] = std::minmax_element(logits.begin(), logits.end());
        apart = std::max(apart, *most - *least);
      }
    };
    if (c.loss.kd_weight == 0) return 0;
    widen(values[0], values[1], s.width);
    widen(values[2], values[3], s.teacher_width);
    return c.loss.kd_weight / c.loss.temperature * apart / c.loss.temperature;
  }

  void expect_agrees(const LossCase& c) {
    const LossSizes& s = c.sizes;
    const auto values = make_values(s);
    const DefinedLoss expected = defined_loss(c, values);
    const Definition definition = [&](const std::vector<Doubles>& in) {
      return Doubles{defined_loss(c, in, values).objective};
    };
    const double term = largest_term(c, values);
    for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{3}, s.rows}) {
      SCOPED_TRACE("chunks of " + std::to_string(chunk));
      const Outcome got = run(c, chunk, values);
      // Logits are sums of `width` products; the loss is as exact as they are.
      const double bound =
          tolerance({expected.cross_entropy, expected.divergence, expected.objective}, s.vocab);
      EXPECT_NEAR(got.sums.cross_entropy, expected.cross_entropy, bound);
      EXPECT_NEAR(got.sums.divergence, expected.divergence, bound);
      EXPECT_NEAR(got.sums.objective, expected.objective, bound);
      EXPECT_EQ(got.sums.correct, expected.correct);
      EXPECT_EQ(got.sums.tokens, s.rows);
      expect_gradient(definition, values, 0, got.states, s.vocab, term);
      expect_gradient(definition, values, 1, got.head, std::max(s.vocab, s.rows), term);
    }
  }

  void expect_gradient(const Definition& definition, const std::vector<Doubles>& values,
                       std::size_t input, const Floats& gradient, std::int64_t longest_sum,
                       double term = 0) {
    ASSERT_EQ(gradient.size(), values[input].size());
    Doubles sizes(gradient.begin(), gradient.end());
    sizes.push_back(term);
    const double bound = tolerance(sizes, longest_sum);
    const std::size_t step = std::max<std::size_t>(1, gradient.size() / 40);
    for (std::size_t i = 0; i < gradient.size(); i += step) {
      Doubles direction(gradient.size(), 0.0);
      direction[i] = 1;
      EXPECT_NEAR(gradient[i], difference_quotient(definition, values, {1.0}, input, direction),
                  bound)
          << "input " << input << ", element " << i;
    }
    Doubles direction(gradient.size());
    double along = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      direction[i] = i * 2654435761u % 7 < 3 ? 1.0 : -1.0;
      along += direction[i] * gradient[i];
    }
    EXPECT_NEAR(along, difference_quotient(definition, values, {1.0}, input, direction),
                bound * std::sqrt(static_cast<double>(gradient.size())))
        << "input " << input;
  }

  std::unique_ptr<Device> device_ = make_test_device();
};

constexpr LossSizes kAlone[] = {{1, 1, 1}, {3, 5, 7}, {7, 4, 33}, {5, 16, 257}, {33, 3, 129}};
constexpr LossSizes kTaught[] = {{1, 1, 1, 1, 1},     {4, 5, 7, 3, 7},   {7, 4, 33, 9, 33},
                                 {3, 8, 257, 4, 257}, {6, 5, 19, 4, 17}, {6, 5, 17, 4, 19}};

TEST_F(HeadLoss, CrossEntropy) {
  for (const LossSizes& s : kAlone) {
    SCOPED_TRACE(s.vocab);
    expect_agrees(make_case(s, {.ce_weight = 0.75f}));
    expect_agrees(make_case(s, {.ce_weight = 0.75f}, true));
  }
}

TEST_F(HeadLoss, EveryDivergence) {
  for (const kernels::DivergenceForm& form : all_divergences())
    for (const LossSizes& s : kTaught)
      for (const float temperature : {1.0f, 0.5f}) {
        SCOPED_TRACE(name_of(form) + ", vocabulary " + std::to_string(s.vocab) + ", temperature " +
                     std::to_string(temperature));
        expect_agrees(make_case(
            s,
            {.ce_weight = 0, .kd_weight = 1.25f, .temperature = temperature, .divergence = form}));
      }
}

TEST_F(HeadLoss, EveryDivergenceWithCrossEntropyAndFactorsOfRows) {
  for (const kernels::DivergenceForm& form : all_divergences())
    for (const LossSizes& s : {LossSizes{7, 4, 33, 9, 33}, LossSizes{6, 5, 19, 4, 17}})
      for (const float temperature : {1.0f, 3.0f})
        for (const bool factors : {false, true}) {
          SCOPED_TRACE(name_of(form) + ", vocabulary " + std::to_string(s.vocab) +
                       ", temperature " + std::to_string(temperature));
          expect_agrees(make_case(s,
                                  {.ce_weight = 0.5f,
                                   .kd_weight = 2.0f,
                                   .temperature = temperature,
                                   .divergence = form},
                                  factors));
        }
}

// A student that is its teacher has nothing to learn: not almost, exactly.
TEST_F(HeadLoss, IsExactlyZeroForAStudentThatIsItsTeacher) {
  for (const kernels::DivergenceForm& form : all_divergences())
    for (const LossSizes& s : {LossSizes{9, 16, 257, 16, 257}, LossSizes{3, 5, 7, 5, 7},
                               LossSizes{13, 64, 503, 64, 503}}) {
      auto values = make_values(s);
      values[2] = values[0];
      values[3] = values[1];
      for (const float temperature : {1.0f, 2.0f, 5.0f})
        for (const bool factors : {false, true}) {
          SCOPED_TRACE(name_of(form) + ", temperature " + std::to_string(temperature));
          const TokenLoss loss{
              .ce_weight = 0, .kd_weight = 1, .temperature = temperature, .divergence = form};
          const Outcome got = run(make_case(s, loss, factors), 4, values);
          EXPECT_EQ(got.sums.divergence, 0);
          for (const float g : got.states) ASSERT_EQ(g, 0);
          for (const float g : got.head) ASSERT_EQ(g, 0);
        }
    }
}

// Logits of +70 and -70, in both directions between student and teacher.
TEST_F(HeadLoss, OfExtremeLogitsIsFiniteAndRight) {
  const LossSizes s{4, 1, 9, 1, 9};
  const std::vector<Doubles> values{{70, -70, 70, -70},
                                    {1, -1, 1, -1, 0.5, -0.5, 0, 1, -1},
                                    {-70, -70, 70, 70},
                                    {1, -1, -1, 1, 0.25, 0, 0, 1, 1}};
  for (const kernels::DivergenceForm& form : all_divergences())
    for (const float temperature : {1.0f, 2.0f}) {
      SCOPED_TRACE(name_of(form));
      const LossCase c{
          .sizes = s,
          .loss = {.ce_weight = 1, .kd_weight = 1, .temperature = temperature, .divergence = form},
          .labels = {1, 0, 7, 4}};
      const DefinedLoss expected = defined_loss(c, values);
      const Outcome got = run(c, 3, values);
      EXPECT_NEAR(got.sums.cross_entropy, expected.cross_entropy, 1e-6 * expected.cross_entropy);
      EXPECT_NEAR(got.sums.divergence, expected.divergence, 1e-6 * (1 + expected.divergence));
      const Definition definition = [&](const std::vector<Doubles>& in) {
        return Doubles{defined_loss(c, in, values).objective};
      };
      expect_gradient(definition, values, 0, got.states, s.vocab);
    }
}

TEST_F(HeadLoss, TellsTheLogProbabilitiesOfLabels) {
  const LossSizes s{7, 4, 33, 9, 33};
  const auto values = make_values(s);
  for (const float temperature : {1.0f, 2.0f}) {
    const LossCase c = make_case(s, {.ce_weight = 1, .kd_weight = 1, .temperature = temperature});
    const DefinedLoss expected = defined_loss(c, values);
    const Outcome got = run(c, 3, values, {}, true), silent = run(c, 3, values);
    expect_close(got.log_probs.student, expected.student_log_probs,
                 tolerance(expected.student_log_probs, s.vocab), "student");
    expect_close(got.log_probs.teacher, expected.teacher_log_probs,
                 tolerance(expected.teacher_log_probs, s.vocab), "teacher");
    EXPECT_EQ(got.head, silent.head);
  }
}

TEST_F(HeadLoss, GivesGradientsOnlyToWhatIsTrained) {
  const LossSizes s{5, 8, 33};
  const auto values = make_values(s);
  const LossCase c = make_case(s, {});
  const Outcome both = run(c, 2, values);
  EXPECT_EQ(run(c, 2, values, {.states = true, .head = false}).states, both.states);
  EXPECT_EQ(run(c, 2, values, {.states = false, .head = true}).head, both.head);
  const Outcome none = run(c, 2, values, {.states = false, .head = false});
  EXPECT_EQ(none.sums.cross_entropy, both.sums.cross_entropy);
}

// Values do not depend on whether a gradient is made beside them.
TEST_F(HeadLoss, IsTheSameWithoutGradients) {
  const LossSizes s{5, 8, 33, 4, 33};
  for (const kernels::DivergenceForm& form : all_divergences()) {
    const LossCase c = make_case(s, {.ce_weight = 1, .kd_weight = 1, .divergence = form}, true);
    const Outcome with = run(c, 2, make_values(s));
    const Outcome without = run(c, 2, make_values(s), {.states = false, .head = false});
    EXPECT_EQ(with.sums.divergence, without.sums.divergence) << name_of(form);
    EXPECT_EQ(with.sums.objective, without.sums.objective) << name_of(form);
  }
}

// Entries that only one model has get no gradient.
TEST_F(HeadLoss, LeavesUncountedEntriesAlone) {
  const LossSizes s{6, 5, 19, 4, 17};
  for (const kernels::DivergenceForm& form : all_divergences()) {
    const LossCase c = make_case(s, {.ce_weight = 1, .kd_weight = 1, .divergence = form});
    const Outcome got = run(c, 3, make_values(s));
    EXPECT_EQ(Floats(got.head.end() - 2 * 5, got.head.end()), Floats(10, 0.0f)) << name_of(form);
  }
}

TEST_F(HeadLoss, OfNoRowsIsNothing) {
  const Var head(Tensor::zeros(*device_, {7, 4}));
  const model::LossSums sums = model::head_loss(nullptr, nullptr, {.loss = {}, .vocab = 7},
                                                {Var(Tensor::empty(*device_, {0, 4})), &head}, {},
                                                Tensor::empty(*device_, {0}, DType::i32));
  EXPECT_EQ(sums.tokens, 0);
  EXPECT_EQ(sums.cross_entropy, 0);
}

// Logits exist for the rows of a chunk only.
TEST_F(HeadLoss, HoldsTheLogitsOfOneChunk) {
  const LossSizes s{64, 8, 4096};
  const auto values = make_values(s);
  device_->reset_peak();
  const std::size_t before = device_->memory().in_use;
  run(make_case(s, {}), 4, values, {.states = true, .head = false});
  const std::size_t chunk = 4 * 4096 * sizeof(float), head = 4096 * 8 * sizeof(float);
  EXPECT_LT(device_->memory().peak - before, head + 2 * chunk);
}

// Inputs are exact in bf16, and so are the logits whatever the device's precision; the gradient of
// a logit is at most the loss's weight, those of a row twice that in sum, and each is off by at
// most 2^-8 of itself.
TEST_F(HeadLoss, RoundsOnlyGradientsOfInputsThatBf16Holds) {
  const LossSizes s{70, 24, 129};
  const LossCase c = make_case(s, {.ce_weight = 0.75f});
  const auto values = make_values(s);
  const bool rounds = kernels::backend().owns_memory;     // the CPU multiplies f32 as f32
  const double u = rounds ? 0x1p-8 : 0.0, largest = 2.0;  // of the inputs
  for (const std::int64_t chunk : {70, 40}) {
    device_ = kernels::make_device({.limit_bytes = std::size_t{64} << 20});
    const Outcome exact = run(c, chunk, values);
    device_ = kernels::make_device(
        {.limit_bytes = std::size_t{64} << 20,
         .precision = rounds ? kernels::Precision::bf16 : kernels::Precision::f32});
    const Outcome got = run(c, chunk, values);
    EXPECT_NEAR(got.sums.objective, exact.sums.objective,
                tolerance({exact.sums.objective}, s.vocab));
    const auto expect_near = [](const Floats& a, const Floats& b, double bound) {
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound) << i;
    };
    const double states = 0.75 * 2 * largest, head = 0.75 * static_cast<double>(s.rows) * largest;
    expect_near(got.states, exact.states, u * states + tolerance({states}, s.vocab));
    expect_near(got.head, exact.head, u * head + tolerance({head}, s.rows));
    EXPECT_EQ(got.head == exact.head, !rounds);
  }
}

}  // namespace
}  // namespace fathom::test
