#include <gtest/gtest.h>

#include "../autograd/gradient_check.h"
#include "kernels/gemm.h"
#include "kernels/mixture.h"
#include "methods/mode/late_vote.h"
#include "tests/support/expect_error.h"

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
      "router = 'x' is neither learnt nor uniform");
}

}  // namespace
}  // namespace fathom::methods::mode
