#include <gtest/gtest.h>

#include "../autograd/gradient_check.h"
#include "kernels/gemm.h"
#include "kernels/mixture.h"
#include "methods/mode/late_vote.h"
#include "methods/mode/shrink.h"
#include "methods/mode/vote_loss.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_device.h"

namespace fathom::methods::mode {
namespace {

using autograd::Var;
using kernels::Trans;
using testing::expect_error;

model::ModelSpec six_layers() {
  model::ModelSpec spec;
  spec.layers = 6;
  spec.hidden = 8;
  return spec;
}

// sum of G_i phi(x_i) = phi(sum of G_i x_i): one head is enough.
TEST(Mode, TheHeadOfTheMixtureIsTheMixtureOfTheHeads) {
  const auto device = test::make_test_device();
  const std::int64_t rows = 29, width = 48, vocab = 101;
  const auto random = [&](Shape shape, std::uint32_t seed) {
    return Tensor::from_host(*device, shape,
                             test::narrow(test::sixty_fourths(shape.elements(), seed)));
  };
  const Tensor head = random({vocab, width}, 1);
  for (const int k : {1, 2, 3, 6})
    for (const int kept : {1, k}) {
      SCOPED_TRACE(str(k, " layers, ", kept, " kept"));
      Votes votes;
      votes.weights = Var(Tensor::empty(*device, {rows, std::int64_t{k}}));
      kernels::topk_softmax(random({rows, std::int64_t{k}}, 2), kept, votes.weights.value);
      const Tensor expected = Tensor::empty(*device, {rows, vocab});
      for (int j = 0; j < k; ++j) {
        votes.experts.emplace_back(random({rows, width}, static_cast<std::uint32_t>(3 + j)));
        const Tensor logits = Tensor::empty(*device, {rows, vocab});
        kernels::gemm(votes.experts.back().value, Trans::no, head, Trans::yes, logits);
        kernels::weigh_rows(logits, votes.weights.value, j, expected, j > 0);
      }
      const Tensor logits = Tensor::empty(*device, {rows, vocab});
      kernels::gemm(mix(nullptr, votes).value, Trans::no, head, Trans::yes, logits);
      const std::vector<float> values = to_host(expected);
      const test::Doubles definition(values.begin(), values.end());
      test::expect_close(to_host(logits), definition, test::tolerance(definition, width * k),
                         "logits");
    }
}

TEST(Mode, ChecksTheModel) {
  const auto refuses = [](const ModeSpec& mode, const model::ModelSpec& model, const char* why) {
    expect_error(
        ErrorKind::config, [&] { check(mode, model); }, why);
  };
  EXPECT_NO_THROW(check({.k = 6, .top_k = 6}, six_layers()));
  refuses({.k = 7}, six_layers(), "mode.k = 7: the model has 6 layers; give 1 to 6");
  refuses({.k = 3, .top_k = 4}, six_layers(), "mode.top_k = 4 of mode.k = 3 late layers");
  model::ModelSpec behind = six_layers();
  behind.pre_norm = false;
  refuses({}, behind, "norms behind the residual sums");
}

// A learnt router needs the state before the late layers as well.
TEST(Mode, AsksForTheStatesItNeeds) {
  const auto layers = [](const ModeSpec& spec) {
    std::vector<std::int64_t> found;
    for (const KeyState& state : LateVote(spec, six_layers()).site().states)
      found.push_back(state.layer);
    return found;
  };
  EXPECT_EQ(layers({.k = 3}), (std::vector<std::int64_t>{3, 4, 5}));
  EXPECT_EQ(layers({.k = 3, .router = Router::uniform}), (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(layers({.k = 6}), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(layers({.k = 1}).empty());
}

TEST(Mode, ASpecIsKeptAsJson) {
  const ModeSpec spec{.k = 4, .top_k = 2, .router = Router::uniform, .norms = Norms::none};
  EXPECT_EQ(parse_mode(to_json(spec), "here"), spec);
  EXPECT_EQ(parse_mode(to_json({}), "here"), ModeSpec{});
  expect_error(
      ErrorKind::io, [] { parse_mode("{\"k\": 3}", "here"); }, "here: not a mixture");
  expect_error(
      ErrorKind::io, [] { parse_mode(R"({"k":3,"top_k":0,"router":"x","norms":"own"})", "here"); },
      "router = 'x' is none of learnt, uniform");
}

// Logits exist for a chunk of rows only, whatever k is.
TEST(Mode, NoLayersLogitsExistForAllTokens) {
  const auto device = test::make_test_device(std::size_t{1} << 28);
  const std::int64_t rows = 512, width = 8, vocab = 2048, k = 3, chunk = 32;
  const auto trained = [&](Shape shape) {
    const Tensor value = Tensor::empty(*device, shape);
    kernels::fill(value, 0.1f);
    return Var(value, std::make_shared<autograd::GradSlot>());
  };
  Votes votes;
  for (int j = 0; j < k; ++j) votes.experts.push_back(trained({rows, width}));
  votes.weights = trained({rows, k});
  const Var head(Tensor::empty(*device, {vocab, width}));
  kernels::fill(head.value, 0.2f);
  const Tensor labels =
      Tensor::from_host(*device, {rows}, std::vector<std::int32_t>(rows, std::int32_t{5}));
  autograd::Tape tape;
  device->reset_peak();
  const std::size_t before = device->memory().in_use;
  const VoteSums sums =
      vote_loss(&tape, nullptr,
                {.head = {.loss = {.ce_weight = 1.0f / rows}, .vocab = vocab, .chunk_rows = chunk},
                 .distill_weight = 0.1f / rows},
                votes, head, {}, labels);
  EXPECT_EQ(sums.head.tokens, rows);
  const std::size_t logits = (k + 1) * chunk * vocab * sizeof(float);
  const std::size_t states = k * rows * width * sizeof(float);
  const std::size_t results = (k + 2) * rows * kernels::kLossResults * sizeof(float);
  EXPECT_LT(device->memory().peak - before, logits + states + results + 64 * 1024);
  EXPECT_LT(logits, rows * vocab * sizeof(float)) << "or the bound says nothing";
}

TEST(Mode, KShrinksOneByOneWhenTheEarliestWeightStaysSmall) {
  ShrinkWatch watch({.below = 0.1, .steps = 3, .least = 2});
  std::vector<int> ks;
  int k = 4;
  for (const double weight : {.05, .05, .2, .05, .05, .05, .05, .05, .05, .0, .0, .0}) {
    k -= watch.observe(weight, k);
    ks.push_back(k);
  }
  EXPECT_EQ(ks, (std::vector<int>{4, 4, 4, 4, 4, 3, 3, 3, 2, 2, 2, 2}));
  ShrinkWatch never({});
  EXPECT_FALSE(never.observe(0, 4));
}

}  // namespace
}  // namespace fathom::methods::mode
