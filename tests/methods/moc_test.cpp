// The operations of mixture of control against their definitions in double, and against numbers
// worked out by hand.

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "../autograd/gradient_check.h"
#include "autograd/adapter_operations.h"
#include "kernels/elementwise.h"
#include "methods/moc/dominance.h"
#include "methods/moc/operations.h"
#include "methods/moc/spec.h"
#include "methods/moc/usage.h"

namespace fathom::test {
namespace {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;
using namespace methods::moc;
using namespace methods::routing;

constexpr std::int64_t kExperts = 5, kWidth = 11, kRank = 3;
const std::vector<std::int32_t> kStarts = {0, 6, 14, 23};
constexpr std::int64_t kRows = 23;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// Three sequences, whose prompts are three tokens long.
Groups groups(Device& device, Scope scope, Tokens tokens) {
  autograd::TokenRows rows;
  rows.starts = kStarts;
  for (std::size_t s = 0; s + 1 < kStarts.size(); ++s) rows.prompts.push_back({kStarts[s], 3});
  return make_groups(device, rows, scope, tokens);
}

bool counts(std::int64_t row, Tokens tokens) {
  std::int64_t start = 0;
  for (const std::int32_t s : kStarts)
    if (s <= row) start = s;
  return tokens == Tokens::all || row < start + 3;
}

// Scores far enough apart that no small step changes a decision.
Input gate_input() {
  Input gate = random_input({kWidth, kExperts}, 5);
  for (std::int64_t i = 0; i < kWidth * kExperts; ++i)
    gate.values[at(i)] = gate.values[at(i)] / 4 + 0.25 * static_cast<double>(i % kExperts);
  return gate;
}

Doubles softmax(const Doubles& z) {
  Doubles p;
  for (const double v : z) p.push_back(std::exp(v));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= total;
  return p;
}

Doubles scores_of(const Doubles& x, const Doubles& gate, std::int64_t row) {
  Doubles s(kExperts, 0.0);
  for (std::int64_t c = 0; c < kWidth; ++c)
    for (std::int64_t e = 0; e < kExperts; ++e)
      s[at(e)] += x[at(row * kWidth + c)] * gate[at(c * kExperts + e)];
  return s;
}

// Weights [groups, 2] by mean scores.
Doubles weights_of(const Doubles& x, const Doubles& gate, const Groups& g, SoftmaxOrder order,
                   Tokens tokens) {
  Doubles weights;
  for (std::int64_t i = 0; i < g.size(); ++i) {
    Doubles mean(kExperts, 0.0);
    double n = 0;
    for (std::int64_t r = g.starts[at(i)]; r < g.starts[at(i + 1)]; ++r) {
      if (!counts(r, tokens)) continue;
      n += 1;
      const Doubles s = scores_of(x, gate, r);
      for (std::int64_t e = 0; e < kExperts; ++e) mean[at(e)] += s[at(e)];
    }
    for (double& m : mean) m /= n;
    std::vector<std::int64_t> best(kExperts);
    std::iota(best.begin(), best.end(), 0);
    std::sort(best.begin(), best.end(), [&](auto a, auto b) { return mean[at(a)] > mean[at(b)]; });
    const Doubles all = softmax(mean), kept = softmax({mean[at(best[0])], mean[at(best[1])]});
    for (std::int64_t j = 0; j < 2; ++j)
      weights.push_back(order == SoftmaxOrder::topk_softmax ? kept[at(j)] : all[at(best[at(j)])]);
  }
  return weights;
}

class MocOperations : public testing::Test {
 protected:
  Experts experts(const Var& a, const Var& b) {
    return {a, b, kRank, {3, 1, 4, 0, 2}};  // in any order
  }
  // Two experts for each of the three sequences; the own one, 2, is among them.
  const std::vector<std::vector<int>> chosen_ = {{2, 4}, {0, 1}, {4, 2}};
  std::shared_ptr<const Decision> decision(const std::vector<float>& weights) {
    auto made = std::make_shared<Decision>();
    for (std::size_t i = 0; i < chosen_.size(); ++i)
      made->groups.push_back({chosen_[i], {weights[2 * i], weights[2 * i + 1]}, {}});
    return made;
  }
  Tensor matrix(Shape shape, const std::vector<float>& values) {
    return Tensor::from_host(*device_, shape, values);
  }
  std::unique_ptr<Device> device_ = make_test_device();
};

TEST_F(MocOperations, WeightsOfChosenExperts) {
  for (const SoftmaxOrder order : {SoftmaxOrder::topk_softmax, SoftmaxOrder::softmax_topk})
    for (const Scope scope : {Scope::sequence, Scope::microbatch})
      for (const Tokens tokens : {Tokens::all, Tokens::prompt}) {
        const Groups g = groups(*device_, scope, tokens);
        const Rule rule{.top_k = 2, .softmax = order};
        check_gradients(*device_, {.inputs = {random_input({kRows, kWidth}, 2), gate_input()},
                                   .operation =
                                       [&](Tape* tape, const std::vector<Var>& in) {
                                         return route(tape, rule, in[0], in[1], g, {}, {}).weights;
                                       },
                                   .definition =
                                       [&](const std::vector<Doubles>& in) {
                                         return weights_of(in[0], in[1], g, order, tokens);
                                       },
                                   .longest_sum = kRows * kWidth});
      }
}

// The gradient of sum_e g_e sum over counted tokens of softmax_e.
TEST_F(MocOperations, BalanceReachesStatesAndGate) {
  const Groups g = groups(*device_, Scope::microbatch, Tokens::prompt);
  const Doubles given = {0.5, -1, 0.25, 2, -0.75};
  const Input x = random_input({kRows, kWidth}, 2), gate = gate_input();
  const Definition definition = [&](const std::vector<Doubles>& in) {
    Doubles sums(kExperts, 0.0);
    for (std::int64_t r = 0; r < kRows; ++r) {
      if (!counts(r, Tokens::prompt)) continue;
      const Doubles p = softmax(scores_of(in[0], in[1], r));
      for (std::size_t e = 0; e < p.size(); ++e) sums[e] += p[e];
    }
    return sums;
  };
  const auto slot = std::make_shared<GradSlot>();
  Tape tape;
  const Var vx(matrix(x.shape, narrow(x.values)), std::make_shared<GradSlot>()),
      vg(matrix(gate.shape, narrow(gate.values)), std::make_shared<GradSlot>());
  // In columns of their own: another gate's come first.
  const Routed routed = route(&tape, {.top_k = 2}, vx, vg, g, {}, {slot, kExperts});
  std::vector<float> both(at(kExperts), 9.0f);
  for (const double v : given) both.push_back(static_cast<float>(v));
  slot->add(matrix({1, 2 * kExperts}, both));
  tape.backward();
  const std::vector<Doubles> inputs = {x.values, gate.values};
  const std::vector<float> probs(routed.decision->probs.begin(), routed.decision->probs.end());
  expect_close(probs, definition(inputs), tolerance(definition(inputs), kRows), "sums of softmax");
  EXPECT_EQ(std::accumulate(routed.decision->picks.begin(), routed.decision->picks.end(), 0.0),
            2 * g.tokens());
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<float> gradient = to_host((i == 0 ? vx : vg).slot->grad());
    for (std::size_t element = 0; element < gradient.size(); element += 7) {
      Doubles direction(gradient.size(), 0.0);
      direction[element] = 1;
      EXPECT_NEAR(gradient[element], difference_quotient(definition, inputs, given, i, direction),
                  tolerance(given, kRows * kWidth))
          << i << " " << element;
    }
  }
}

TEST_F(MocOperations, OwnAndRoutedControls) {
  const Groups g = groups(*device_, Scope::sequence, Tokens::all);
  constexpr float kAlpha = 0.75f;
  check_gradients(*device_,
                  {.inputs = {random_input({kRows, kWidth}, 1), random_input({kRows, kWidth}, 2),
                              random_input({kExperts * kRank, kWidth}, 3),
                              random_input({kExperts * kWidth, kRank}, 4), random_input({3, 2}, 6)},
                   .operation =
                       [&](Tape* tape, const std::vector<Var>& in) {
                         return control(tape, in[0], in[1], experts(in[2], in[3]), 2, kAlpha, g,
                                        {decision(to_host(in[4].value)), in[4]});
                       },
                   .definition =
                       [&](const std::vector<Doubles>& in) {
                         Doubles y = in[0];
                         const auto slots = experts({}, {}).slots;
                         const auto add = [&](std::int64_t row, int expert, double factor) {
                           const std::int64_t slot = slots[at(expert)];
                           for (std::int64_t k = 0; k < kRank; ++k) {
                             double u = 0;
                             for (std::int64_t c = 0; c < kWidth; ++c)
                               u += in[1][at(row * kWidth + c)] *
                                    in[2][at((slot * kRank + k) * kWidth + c)];
                             for (std::int64_t c = 0; c < kWidth; ++c)
                               y[at(row * kWidth + c)] +=
                                   factor * u * in[3][at((slot * kWidth + c) * kRank + k)];
                           }
                         };
                         for (std::int64_t i = 0; i < g.size(); ++i)
                           for (std::int64_t r = kStarts[at(i)]; r < kStarts[at(i + 1)]; ++r) {
                             add(r, 2, 0.75);
                             for (std::size_t j = 0; j < 2; ++j)
                               add(r, chosen_[at(i)][j], 0.25 * in[4][at(2 * i) + j]);
                           }
                         return y;
                       },
                   .longest_sum = kRows * kWidth * kRank});
}

// With alpha = 1 there is nothing but the layer's own control, bit for bit.
TEST_F(MocOperations, AlphaOneIsParallelControl) {
  const Groups g = groups(*device_, Scope::sequence, Tokens::all);
  const auto input = [&](Shape shape, std::uint32_t seed) {
    return Var(matrix(shape, narrow(sixty_fourths(shape.elements(), seed))));
  };
  const Var x = input({kRows, kWidth}, 2), a = input({kRank, kWidth}, 3),
            b = input({kWidth, kRank}, 4);
  const Var all_a = input({kExperts * kRank, kWidth}, 13),
            all_b = input({kExperts * kWidth, kRank}, 14);
  const std::int64_t slot = experts(all_a, all_b).slots[2];
  kernels::copy(a.value, all_a.value.slice_rows(slot * kRank, kRank));
  kernels::copy(b.value, all_b.value.slice_rows(slot * kWidth, kWidth));
  const Var mixed = control(nullptr, input({kRows, kWidth}, 1), x, experts(all_a, all_b), 2, 1.0f,
                            g, {decision({.5f, .5f, .25f, .5f, 1, .125f}), {}});
  const Var plain =
      autograd::low_rank_add(nullptr, input({kRows, kWidth}, 1), x, a, {{b, 0, {}}}, 1);
  EXPECT_EQ(to_host(mixed.value), to_host(plain.value));
}

// Two layers of width 2, worked out by hand: three experts of rank 1, the own one is 0.
TEST_F(MocOperations, WorkedExample) {
  const Var x(matrix({2, 2}, {1, 2, 3, -1}), std::make_shared<GradSlot>());
  const Var gate(matrix({2, 3}, {.2f, -.1f, .4f, 0, .3f, .1f}), std::make_shared<GradSlot>());
  const Var a(matrix({3, 2}, {1, 0, 0, 1, 1, 1}), std::make_shared<GradSlot>());
  const Var b(matrix({6, 1}, {.5f, 0, 0, .25f, .1f, -.1f}), std::make_shared<GradSlot>());
  autograd::TokenRows rows;
  rows.starts = {0, 2};
  rows.prompts = {{0, 2}};
  const Groups g = make_groups(*device_, rows, Scope::microbatch, Tokens::all);
  const auto run = [&](Tape* tape, const Rule& rule) {
    const Var y(matrix({2, 2}, {1, 2, 3, -1}));
    return control(tape, y, x, {a, b, 1, {0, 1, 2}}, 0, 0.95f, g,
                   route(tape, rule, x, gate, g, {}, {}));
  };
  const auto expect = [](const std::vector<float>& actual, const Doubles& expected) {
    expect_close(actual, expected, 2e-6, "worked example");  // given to six digits
  };
  const auto order = SoftmaxOrder::softmax_topk;
  expect(to_host(run(nullptr, {.top_k = 1}).value), {1.49, 1.985, 4.435, -1.01});
  expect(to_host(run(nullptr, {.top_k = 1, .softmax = order}).value),
         {1.482338, 1.992662, 4.429892, -1.004892});
  expect(to_host(run(nullptr, {.top_k = 2, .softmax = order}).value),
         {1.490136, 1.992662, 4.453286, -1.004892});
  Tape tape;
  const Var y = run(&tape, {.top_k = 2});
  expect(to_host(y.value), {1.493894, 1.990840, 4.460309, -1.006106});
  y.slot->add(matrix({2, 2}, {1, 0, 1, 0}));
  tape.backward();
  expect(to_host(gate.slot->grad()), {.035664, 0, -.035664, .008916, 0, -.008916});
  const std::vector<float> db = to_host(b.slot->grad());
  expect(db, {3.877872, 0, 0, 0, .152660, 0});
  EXPECT_EQ(db[2], 0);  // nobody chose expert 1: exactly
  EXPECT_EQ(db[3], 0);
  expect(to_host(x.slot->grad()), {.486004, .002162, .486004, .002162});  // y's own path left out
}

// The scores are the inputs themselves. An unused fourth token may be padding.
TEST_F(MocOperations, BalanceOfKnownScores) {
  const std::vector<float> scores = {2, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 3, 0};
  const Var gate(matrix({4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}));
  const auto balance = [&](const Decision& decision, double n) {
    return balance_of(decision.picks.data(), decision.probs.data(), 4, n, 1).value;
  };
  autograd::TokenRows rows;
  rows.starts = {0, 4};
  rows.prompts = {{0, 3}};
  const Var x(matrix({4, 4}, scores), std::make_shared<GradSlot>());
  const auto slot = std::make_shared<GradSlot>();
  Tape tape;
  const Groups all = make_groups(*device_, rows, Scope::microbatch, Tokens::all);
  const auto decided = route(&tape, {.top_k = 1}, x, gate, all, {}, {slot, 0}).decision;
  EXPECT_EQ(decided->picks, (std::vector<double>{2, 1, 1, 0}));
  EXPECT_NEAR(balance(*decided, 4), 1.228867, 2e-6);
  slot->add(matrix({1, 4}, {.5f, .25f, .25f, 0}));  // L f / N
  tape.backward();
  const std::vector<float> gradient = to_host(x.slot->grad());
  expect_close({gradient.begin(), gradient.begin() + 4}, {.068460, -.014799, -.014799, -.038863},
               2e-6, "gradient of the first token");
  // The mean of the terms of both halves is not the term of the whole.
  const auto half = [&](std::int64_t first) {
    autograd::TokenRows two;
    two.starts = {0, 2};
    two.prompts = {{0, 2}};
    const Groups both = make_groups(*device_, two, Scope::microbatch, Tokens::all);
    const Var x2(x.value.slice_rows(first, 2));
    return balance(*route(nullptr, {.top_k = 1}, x2, gate, both, {}, {}).decision, 2);
  };
  EXPECT_NEAR(half(0), 1.457734, 2e-6);
  EXPECT_NEAR(half(2), 1.563610, 2e-6);
  const Groups three = make_groups(*device_, rows, Scope::microbatch, Tokens::prompt);
  EXPECT_NEAR(balance(*route(nullptr, {.top_k = 1}, x, gate, three, {}, {}).decision, 3), 1.541981,
              2e-6);
}

// The gradient of 2.5 times the weight of the best of three. A softmax over the one kept score is
// constant.
TEST_F(MocOperations, GradientOfTheOnlyWeight) {
  const double scores[] = {.3, -.2, .9}, none[] = {0, 0, 0};
  const auto gradient = [&](SoftmaxOrder order) {
    const Choice choice = choose({.top_k = 1, .softmax = order}, 3, {scores, none, none, 1});
    EXPECT_EQ(choice.experts, std::vector<int>{2});
    EXPECT_NEAR(choice.weights[0], order == SoftmaxOrder::softmax_topk ? .5314 : 1, 5e-5);
    return score_gradient(order, choice, {2.5});
  };
  EXPECT_EQ(gradient(SoftmaxOrder::topk_softmax), (Doubles{0, 0, 0}));
  const Doubles passed = gradient(SoftmaxOrder::softmax_topk);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(passed[i], (Doubles{-.3875, -.2350, .6225})[i], 5e-5) << i;  // to four digits
}

TEST_F(MocOperations, EqualScoresGoToTheFirst) {
  const double scores[] = {3, 2, 3, 2, 1, 1}, none[] = {0, 0, 0, 0, 0, 0};
  EXPECT_EQ(choose({.top_k = 3}, 6, {scores, none, none, 1}).experts, (std::vector<int>{0, 2, 1}));
  const double votes[] = {1, 2, 2, 0, 2, 0}, probs[] = {0, .5, .75, 0, .5, 9};
  EXPECT_EQ(
      choose({.top_k = 3, .aggregate = Aggregate::mode}, 6, {scores, probs, votes, 1}).experts,
      (std::vector<int>{2, 1, 4}));
  const double broken[] = {NAN, 2, NAN, 3, 1, 1};
  EXPECT_EQ(choose({.top_k = 2}, 6, {broken, none, none, 1}).experts, (std::vector<int>{3, 1}));
}

// What was chosen once is chosen again, whatever the scores say by then.
TEST_F(MocOperations, ReplayKeepsTheDecision) {
  const Groups g = groups(*device_, Scope::sequence, Tokens::all);
  const Input x = random_input({kRows, kWidth}, 2), gate = gate_input();
  const Var vx(matrix(x.shape, narrow(x.values))), vg(matrix(gate.shape, narrow(gate.values)));
  const auto first = route(nullptr, {.top_k = 2}, vx, vg, g, {}, {});
  const Var other(matrix(x.shape, narrow(random_input({kRows, kWidth}, 77).values)));
  const auto again = route(nullptr, {.top_k = 2}, other, vg, g, {}, {}, first.decision);
  EXPECT_EQ(again.decision, first.decision);
  EXPECT_EQ(to_host(again.weights.value), to_host(first.weights.value));
}

// Two rows of three: their mean is (3, 0), and the second token has 4 of its 6.
TEST_F(MocOperations, LargestPartOfAToken) {
  autograd::TokenRows rows;
  rows.starts = {0, 3};
  rows.prompts = {{0, 2}};
  const Tensor states = matrix({3, 2}, {2, 1, 4, -1, 100, 7});
  const auto part = [&](Tokens tokens) {
    return methods::moc::largest_part(states,
                                      make_groups(*device_, rows, Scope::microbatch, tokens));
  };
  EXPECT_NEAR(part(Tokens::prompt), 4.0 / 6, 1e-12);
  EXPECT_NEAR(part(Tokens::all), (106.0 * 100 + 7 * 7) / (106.0 * 106 + 7 * 7), 1e-12);
}

TEST(MocUsage, Summaries) {
  UsageLog log;
  const UsageSummary even = log.add({2, 0, 0, 2}, 2);
  EXPECT_NEAR(even.entropy, 1, 1e-12);
  EXPECT_EQ(even.flips, 0);
  const UsageSummary one = log.add({0, 3, 0, 1}, 2);
  EXPECT_EQ(one.entropy, 0);
  EXPECT_EQ(one.largest_share, 1);
  EXPECT_EQ(one.unused, 1);
  EXPECT_EQ(one.flips, 1);
}

}  // namespace
}  // namespace fathom::test
