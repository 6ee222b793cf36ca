// What tensor ranks compute together: the differentiable collectives, and the head whose vocabulary
// is spread over them.

#include <gtest/gtest.h>
#include <numeric>

#include "../mpi_main.h"
#include "comm/differentiable.h"
#include "loss_definition.h"
#include "model/head.h"
#include "model/shard.h"
#include "tests/autograd/gradient_check.h"

namespace fathom::test {
namespace {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;
using autograd::WeightLayout;
using kernels::TokenLoss;
using Floats = std::vector<float>;

// Between ranks MPI copies straight out of another process's memory, so that it cannot be guarded.
std::unique_ptr<Device> make_shared_device() {
  constexpr std::size_t kLimit = std::size_t{256} << 20;
  return test::make_device(kLimit);
}

class TensorParallel : public testing::Test {
 protected:
  Tensor upload(const Doubles& values, std::int64_t rows, std::int64_t columns) {
    return Tensor::from_host(*device_, {rows, columns}, narrow(values));
  }
  int rank() const { return world().rank(); }
  int size() const { return world().size(); }
  std::unique_ptr<Device> device_ = make_shared_device();
};

// --- collectives ---

TEST_F(TensorParallel, CopyToGroupSumsGradients) {
  const Var x(upload({1, 2, 3}, 1, 3), std::make_shared<GradSlot>());
  Tape tape;
  const Var y = comm::copy_to_group(&tape, &world(), x);
  EXPECT_EQ(to_host(y.value), (Floats{1, 2, 3}));
  const float mine = static_cast<float>(rank() + 1);
  y.slot->add(Tensor::from_host(*device_, {1, 3}, Floats{mine, 10 * mine, -mine}));
  tape.backward();
  const auto total = static_cast<float>(size() * (size() + 1) / 2);
  EXPECT_EQ(to_host(x.slot->grad()), (Floats{total, 10 * total, -total}));
}

TEST_F(TensorParallel, SumOverGroupSumsValuesAndHandsTheGradientOn) {
  const Doubles mine{1.0 + rank(), 2.0};
  const Var x(upload(mine, 1, 2), std::make_shared<GradSlot>());
  Tape tape;
  const Var y = comm::sum_over_group(&tape, &world(), x);
  EXPECT_EQ(to_host(y.value), (Floats{static_cast<float>(size() * (size() + 1) / 2),
                                      static_cast<float>(2 * size())}));
  y.slot->add(upload({5, 7}, 1, 2));
  tape.backward();
  EXPECT_EQ(to_host(x.slot->grad()), (Floats{5, 7}));
}

// A micro-batch without labels gives no gradient to any rank: nothing to sum, and no error.
TEST_F(TensorParallel, NoGradientIsNothingToSum) {
  const Var x(upload({1, 2, 3}, 1, 3), std::make_shared<GradSlot>());
  Tape tape;
  comm::copy_to_group(&tape, &world(), x);
  EXPECT_NO_THROW(tape.backward());
  EXPECT_FALSE(x.slot->grad().defined());
}

TEST_F(TensorParallel, WithoutAGroupBothAreTheIdentity) {
  const Var x(upload({1, 2}, 1, 2), std::make_shared<GradSlot>());
  Tape tape;
  EXPECT_EQ(comm::copy_to_group(&tape, nullptr, x).slot, x.slot);
  EXPECT_EQ(comm::sum_over_group(&tape, nullptr, x).slot, x.slot);
  EXPECT_EQ(comm::copy_to_group(nullptr, &world(), x).slot, x.slot);
  EXPECT_TRUE(tape.empty());
}

// A feed-forward layer split by columns, then by rows, is the whole one: value and gradients.
TEST_F(TensorParallel, ASplitFeedForwardIsTheWholeOne) {
  constexpr std::int64_t kRows = 7, kWidth = 5;
  const std::int64_t mine = 4, hidden = mine * size();
  const Doubles x = sixty_fourths(kRows * kWidth, 1), up = sixty_fourths(hidden * kWidth, 2),
                down = sixty_fourths(kWidth * hidden, 3), dy = sixty_fourths(kRows * kWidth, 4);
  const auto run = [&](comm::Communicator* group, std::int64_t first, std::int64_t count) {
    Doubles my_up(up.begin() + first * kWidth, up.begin() + (first + count) * kWidth), my_down;
    for (std::int64_t r = 0; r < kWidth; ++r)
      my_down.insert(my_down.end(), down.begin() + r * hidden + first,
                     down.begin() + r * hidden + first + count);
    const auto trained = [](Tensor value) {
      return Var(std::move(value), std::make_shared<GradSlot>());
    };
    const Var in = trained(upload(x, kRows, kWidth)), a = trained(upload(my_up, count, kWidth)),
              b = trained(upload(my_down, kWidth, count));
    Tape tape;
    const Var wide = autograd::activation(
        &tape, kernels::Activation::silu,
        autograd::linear(&tape, comm::copy_to_group(&tape, group, in), a, WeightLayout::out_in));
    const Var y =
        comm::sum_over_group(&tape, group, autograd::linear(&tape, wide, b, WeightLayout::out_in));
    y.slot->add(upload(dy, kRows, kWidth));
    tape.backward();
    return std::vector<Floats>{to_host(y.value), to_host(in.slot->grad()), to_host(a.slot->grad())};
  };
  const auto whole = run(nullptr, 0, hidden), split = run(&world(), mine * rank(), mine);
  for (std::size_t i = 0; i < 2; ++i) {
    const Doubles expected(whole[i].begin(), whole[i].end());
    expect_close(split[i], expected, tolerance(expected, hidden), i == 0 ? "value" : "dx");
  }
  const auto begin = whole[2].begin() + mine * rank() * kWidth;
  const Doubles expected(begin, begin + mine * kWidth);
  expect_close(split[2], expected, tolerance(expected, hidden), "dW");
}

// --- the head ---

struct Outcome {
  model::LossSums sums;
  Floats states, head;
  model::LabelLogProbs log_probs;
};

class SpreadHead : public TensorParallel {
 protected:
  // The rows [first, first + count) of a head.
  Tensor rows_of(const Doubles& head, std::int64_t width, std::int64_t first, std::int64_t count) {
    const auto begin = head.begin() + first * width;
    return upload(Doubles(begin, begin + count * width), count, width);
  }

  Outcome run(comm::Communicator* group, const LossCase& c, const std::vector<Doubles>& values) {
    const LossSizes& s = c.sizes;
    const model::Shard mine = shard(s.vocab, s.counted(), group);
    Var head(rows_of(values[1], s.width, mine.first_vocab, mine.vocab));
    head.slot = std::make_shared<GradSlot>(Tensor::zeros(*device_, {mine.vocab, s.width}));
    const Var states(upload(values[0], s.rows, s.width), std::make_shared<GradSlot>());
    model::HeadLoss options{
        .loss = c.loss, .first_vocab = mine.first_vocab, .vocab = mine.vocab, .chunk_rows = 3};
    if (!c.row_weights.empty())
      options.row_weights = Tensor::from_host(*device_, {s.rows, 2}, c.row_weights);
    if (!c.row_alpha.empty())
      options.row_alpha = Tensor::from_host(*device_, {s.rows}, c.row_alpha);
    Var teacher_head;
    model::HeadInput teacher;
    Outcome outcome;
    const bool taught = s.teacher_vocab > 0;
    if (taught) {
      const model::Shard theirs = shard(s.teacher_vocab, s.counted(), group);
      teacher_head = Var(rows_of(values[3], s.teacher_width, theirs.first_vocab, theirs.vocab));
      teacher = {Var(upload(values[2], s.rows, s.teacher_width)), &teacher_head};
      options.vocab = std::min(mine.vocab, theirs.vocab);
    }
    Tape tape;
    outcome.sums = model::head_loss(&tape, group, options, {states, &head}, teacher,
                                    Tensor::from_host(*device_, {s.rows}, c.labels),
                                    taught ? &outcome.log_probs : nullptr);
    tape.backward();
    outcome.states = to_host(states.slot->grad());
    outcome.head = to_host(head.slot->grad());
    return outcome;
  }

  static model::Shard shard(std::int64_t vocab, std::int64_t counted, comm::Communicator* group) {
    model::ModelSpec spec;
    spec.heads = spec.kv_heads = spec.ffn = 6;
    spec.vocab = vocab;
    return group == nullptr ? make_shard(spec, 0, 1, counted)
                            : make_shard(spec, group->rank(), group->size(), counted);
  }

  static std::vector<Doubles> make_values(const LossSizes& s) {
    return {sixty_fourths(s.rows * s.width, 1), sixty_fourths(s.vocab * s.width, 2),
            sixty_fourths(s.rows * s.teacher_width, 3),
            sixty_fourths(s.teacher_vocab * s.teacher_width, 4)};
  }

  void expect_equals_whole(const LossCase& c, const std::vector<Doubles>& values) {
    const LossSizes& s = c.sizes;
    const Outcome whole = run(nullptr, c, values), spread = run(&world(), c, values);
    const DefinedLoss expected = defined_loss(c, values);
    const double bound =
        tolerance({expected.cross_entropy, expected.divergence, expected.objective}, s.vocab);
    EXPECT_NEAR(spread.sums.cross_entropy, expected.cross_entropy, bound);
    EXPECT_NEAR(spread.sums.divergence, expected.divergence, bound);
    EXPECT_NEAR(spread.sums.objective, expected.objective, bound);
    expect_close(spread.log_probs.teacher, expected.teacher_log_probs, bound, "teacher's labels");
    EXPECT_EQ(spread.sums.correct, expected.correct);
    EXPECT_EQ(spread.sums.tokens, s.rows);
    const Doubles states(whole.states.begin(), whole.states.end());
    expect_close(spread.states, states, tolerance(states, s.vocab), "states");
    const model::Shard mine = shard(s.vocab, s.counted(), &world());
    const auto begin = whole.head.begin() + mine.first_vocab * s.width;
    const Doubles head(begin, begin + mine.vocab * s.width);
    expect_close(spread.head, head, tolerance(head, s.vocab), "head");
  }
};

TEST_F(SpreadHead, CrossEntropyEqualsTheWholeOne) {
  const LossSizes s{10, 16, 503};
  expect_equals_whole(make_case(s, {.ce_weight = 0.5f}), make_values(s));
}

TEST_F(SpreadHead, EveryDivergenceEqualsTheWholeOne) {
  for (const kernels::DivergenceForm& form : all_divergences())
    for (const LossSizes& s : {LossSizes{10, 16, 503, 24, 503}, LossSizes{10, 16, 503, 24, 500},
                               LossSizes{10, 16, 500, 24, 503}})
      for (const float temperature : {1.0f, 2.0f}) {
        SCOPED_TRACE(name_of(form) + ": " + std::to_string(s.vocab) + " against " +
                     std::to_string(s.teacher_vocab));
        TokenLoss loss{
            .ce_weight = 0, .kd_weight = 1, .temperature = temperature, .divergence = form};
        expect_equals_whole(make_case(s, loss), make_values(s));
        loss.ce_weight = 0.5f;
        expect_equals_whole(make_case(s, loss, true), make_values(s));
      }
}

// Three ranks and four entries: the last rank has none.
TEST_F(SpreadHead, ARankWithoutEntriesTakesPart) {
  const LossSizes s{5, 3, 4, 2, 4};
  for (const kernels::DivergenceForm& form : all_divergences())
    expect_equals_whole(
        make_case(s, {.ce_weight = 1, .kd_weight = 1, .temperature = 2, .divergence = form}),
        make_values(s));
}

TEST_F(SpreadHead, IsExactlyZeroForAStudentThatIsItsTeacher) {
  const LossSizes s{10, 16, 503, 16, 503};
  auto values = make_values(s);
  values[2] = values[0];
  values[3] = values[1];
  for (const kernels::DivergenceForm& form : all_divergences())
    for (const float temperature : {1.0f, 2.0f, 5.0f}) {
      SCOPED_TRACE(name_of(form));
      const TokenLoss loss{
          .ce_weight = 0, .kd_weight = 1, .temperature = temperature, .divergence = form};
      const Outcome got = run(&world(), make_case(s, loss), values);
      EXPECT_EQ(got.sums.divergence, 0);
      EXPECT_EQ(got.states, Floats(got.states.size(), 0.0f));
      EXPECT_EQ(got.head, Floats(got.head.size(), 0.0f));
    }
}

TEST_F(SpreadHead, ExtremeLogitsAreFiniteAndRight) {
  const LossSizes s{4, 1, 9, 1, 9};
  const std::vector<Doubles> values{{70, -70, 70, -70},
                                    {1, -1, 1, -1, 0.5, -0.5, 0, 1, -1},
                                    {-70, -70, 70, 70},
                                    {1, -1, -1, 1, 0.25, 0, 0, 1, 1}};
  for (const kernels::DivergenceForm& form : all_divergences())
    for (const float temperature : {1.0f, 2.0f})
      expect_equals_whole(
          make_case(
              s, {.ce_weight = 1, .kd_weight = 1, .temperature = temperature, .divergence = form}),
          values);
}

}  // namespace
}  // namespace fathom::test
