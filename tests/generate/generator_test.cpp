#include "generate/generator.h"

#include <cmath>
#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "../support/expect_error.h"
#include "exit_reference.h"
#include "generate/replicas.h"
#include "kernels/elementwise.h"
#include "loaded_model.h"
#include "model/head.h"
#include "tests/support/golden.h"

namespace fathom::generate {
namespace {

using fathom::testing::expect_error;

// A pipeline at 2 ranks, both axes at 4.
comm::GridShape grid_shape() {
  const int ranks = test::world().size();
  return ranks == 4 ? comm::GridShape{.pp = 2, .tp = 2} : comm::GridShape{.pp = ranks};
}

// One stage, so that a test may run it by itself, on two tensor ranks where there are as many.
comm::GridShape two_shards() {
  const int ranks = test::world().size(), tp = std::min(ranks, 2);
  return {.dp = ranks / tp, .tp = tp};
}

std::vector<Prompt> prompts(std::size_t count) {
  std::vector<Prompt> all;
  for (std::size_t i = 0; i < count; ++i) {
    Prompt prompt;
    prompt.sample = 1000 + i;
    for (std::size_t j = 0; j < 1 + i * 5 % 11; ++j)
      prompt.ids.push_back(static_cast<std::int32_t>(3 + (i * 37 + j * 101) % 290));
    all.push_back(prompt);
  }
  return all;
}

void expect_same(const std::vector<Continuation>& a, const std::vector<Continuation>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].ids, b[i].ids) << "prompt " << i;
    EXPECT_EQ(a[i].reason, b[i].reason);
    ASSERT_EQ(a[i].logprobs.size(), b[i].logprobs.size());
    for (std::size_t t = 0; t < a[i].logprobs.size(); ++t)
      EXPECT_NEAR(a[i].logprobs[t], b[i].logprobs[t], 2e-5) << "prompt " << i << ", token " << t;
  }
}

class GeneratorTest : public ::testing::Test {
 protected:
  explicit GeneratorTest(const std::string& name = "qwen2")
      : device_(test::make_test_device(std::size_t{1} << 28, test::world().rank())),
        model_(test::golden("models/" + name), *device_, test::world(), grid_shape()) {}

  std::vector<Continuation> generate(const std::vector<Prompt>& input, GeneratorOptions options,
                                     const TokenCallback& callback = {}) {
    return Generator(*model_.stage, model_.grid, std::move(options)).generate(input, callback);
  }

  std::unique_ptr<Device> device_;
  test::LoadedModel model_;
};

TEST_F(GeneratorTest, BatchesEqualOneByOne) {
  const std::vector<Prompt> all = prompts(9);
  GeneratorOptions options{.max_new = 12, .batch = 1};
  const auto one_by_one = generate(all, options);
  for (const std::int64_t batch : {2, 4, 9, 100}) {
    options.batch = batch;
    expect_same(generate(all, options), one_by_one);
  }
  options.prompt_rows = 5;
  expect_same(generate(all, options), one_by_one);
}

TEST_F(GeneratorTest, SamplesDoNotDependOnTheirCompany) {
  std::vector<Prompt> all = prompts(8);
  GeneratorOptions options{.sampling = {.temperature = 1.5, .top_k = 200, .top_p = 0.95, .seed = 7},
                           .max_new = 15,
                           .batch = 8};
  const auto together = generate(all, options);
  options.batch = 3;
  std::reverse(all.begin(), all.end());
  auto reversed = generate(all, options);
  std::reverse(reversed.begin(), reversed.end());
  expect_same(together, reversed);

  options.sampling.seed = 8;
  EXPECT_NE(generate(all, options)[0].ids, reversed.back().ids);
}

TEST_F(GeneratorTest, NeverRepeatsABannedRun) {
  const std::vector<Prompt> all = prompts(3);
  const auto results = generate(all, {.sampling = {.no_repeat_ngram = 2}, .max_new = 40});
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::int32_t> ids = all[i].ids;
    ids.insert(ids.end(), results[i].ids.begin(), results[i].ids.end());
    std::set<std::pair<std::int32_t, std::int32_t>> seen;
    for (std::size_t t = all[i].ids.size(); t + 1 < ids.size(); ++t)
      EXPECT_TRUE(seen.insert({ids[t], ids[t + 1]}).second) << "token " << t;
  }
}

// The head's two last rows become so large that one of them wins everywhere.
void let_padding_win(const model::Stage& stage) {
  if (!stage.plan().has_head) return;
  const model::Shard& shard = stage.plan().shard;
  for (const auto& [behind, value] : {std::pair{1, 1e3f}, std::pair{2, -1e3f}}) {
    const std::int64_t row = stage.spec().vocab - behind - shard.first_vocab;
    if (row >= 0 && row < stage.head().value.rows())
      kernels::fill(stage.head().value.slice_rows(row, 1), value);
  }
}

TEST_F(GeneratorTest, NeverChoosesIdsThatTheTokenizerLacks) {
  const std::vector<Prompt> all = prompts(5);
  const auto vocab = static_cast<std::int32_t>(model_.stage->spec().vocab - 2);
  const Sampling ways[] = {{},
                           {.no_repeat_ngram = 2},
                           {.temperature = 1.5, .seed = 3},
                           {.temperature = 2, .top_k = 40, .top_p = 0.9, .seed = 3}};
  std::vector<std::vector<Continuation>> before;
  for (const Sampling& sampling : ways)
    before.push_back(generate(all, {.sampling = sampling, .vocab = vocab, .max_new = 12}));
  let_padding_win(*model_.stage);
  for (const Continuation& result : generate(all, {.max_new = 12}))
    EXPECT_GE(result.ids.front(), vocab) << "unless they are left out";
  for (std::size_t way = 0; way < before.size(); ++way) {
    const auto after = generate(all, {.sampling = ways[way], .vocab = vocab, .max_new = 12});
    expect_same(after, before[way]);
    for (const Continuation& result : after)
      for (const std::int32_t id : result.ids) EXPECT_LT(id, vocab);
  }
  expect_error(
      ErrorKind::config, [&] { generate(all, {.vocab = vocab + 3}); },
      "vocab = ", "vocabulary has");
}

TEST_F(GeneratorTest, EndsAtStopIdsAndAtTheContext) {
  const std::vector<Prompt> all = prompts(4);
  GeneratorOptions options{.max_new = 1000};
  const auto open = generate(all, options);
  const auto context = static_cast<std::size_t>(model_.stage->spec().max_positions);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(open[i].reason, StopReason::context);
    EXPECT_EQ(open[i].ids.size() + all[i].ids.size(), context);
  }
  options.stop_ids = {open[2].ids[4]};
  const auto stopped = generate(all, options)[2];
  EXPECT_EQ(stopped.reason, StopReason::stop_id);
  EXPECT_EQ(stopped.ids.back(), options.stop_ids[0]);
  EXPECT_LE(stopped.ids.size(), 5u);
  EXPECT_TRUE(std::equal(stopped.ids.begin(), stopped.ids.end(), open[2].ids.begin()));
}

TEST_F(GeneratorTest, NoSequenceOutgrowsTheContextAskedFor) {
  const std::vector<Prompt> all = prompts(6);  // of 1 to 11 tokens
  const auto results = generate(all, {.max_new = 8, .context = 12, .batch = 4});
  const auto open = generate(all, {.max_new = 8, .batch = 4});
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t room = 12 - all[i].ids.size(), expected = std::min<std::size_t>(8, room);
    ASSERT_EQ(results[i].ids.size(), expected) << "prompt " << i;
    EXPECT_TRUE(std::equal(results[i].ids.begin(), results[i].ids.end(), open[i].ids.begin()));
    EXPECT_EQ(results[i].reason, room < 8 ? StopReason::context : StopReason::max_new);
  }
  expect_error(
      ErrorKind::data, [&] { generate(all, {.context = 9}); }, "prompt 3", "context of 9");
}

// Two tensor ranks and, at four, two replicas: prompts are divided, results are not.
TEST(Replicas, ShareThePromptsAndAllGetAllResults) {
  const auto device = test::make_test_device(std::size_t{1} << 28, test::world().rank());
  const int ranks = test::world().size();
  const comm::GridShape shape =
      ranks == 4 ? comm::GridShape{.dp = 2, .tp = 2} : comm::GridShape{.dp = ranks};
  test::LoadedModel model(test::golden("models/qwen2"), *device, test::world(), shape);
  Generator generator(*model.stage, model.grid, {.sampling = {.temperature = 1}, .max_new = 9});
  for (const std::size_t count : {0, 1, 2, 7}) {
    const std::vector<Prompt> all = prompts(count);
    std::vector<std::size_t> told(count);
    const auto results = generate_over_replicas(
        generator, model.grid, all, [&](std::size_t prompt, const Choice&) { ++told.at(prompt); });
    expect_same(results, generator.generate(all));
    // Every prompt was told of by one replica.
    for (std::size_t i = 0; i < count; ++i) {
      auto tokens = static_cast<std::int64_t>(told[i]);
      EXPECT_TRUE(tokens == 0 || told[i] == results[i].ids.size()) << "prompt " << i;
      model.grid.dp().all_reduce(&tokens, 1, comm::ReduceOp::sum);
      EXPECT_EQ(tokens, static_cast<std::int64_t>(results[i].ids.size())) << "prompt " << i;
    }
  }
}

TEST_F(GeneratorTest, CallsBackForEveryTokenInOrder) {
  const std::vector<Prompt> all = prompts(5);
  std::vector<Continuation> seen(all.size());
  const auto results =
      generate(all, {.max_new = 6, .batch = 2}, [&](std::size_t prompt, const Choice& choice) {
        seen[prompt].ids.push_back(choice.id);
        seen[prompt].logprobs.push_back(choice.logprob);
      });
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(seen[i].ids, results[i].ids);
    EXPECT_EQ(seen[i].logprobs, results[i].logprobs);
  }
}

TEST_F(GeneratorTest, RefusesBadPrompts) {
  const GeneratorOptions options{.max_new = 3};
  EXPECT_TRUE(generate({}, options).empty());
  const auto refuse = [&](std::vector<std::int32_t> ids, const char* part) {
    expect_error(
        ErrorKind::data,
        [&] {
          generate({{{1}, 0}, {ids, 1}}, options);
        },
        "prompt 2", part);
  };
  refuse({}, "no tokens");
  refuse({5, -1}, "-1");
  refuse({5, 1 << 20}, "vocabulary");
  refuse(std::vector<std::int32_t>(64, 1), "context of 64");
  expect_error(
      ErrorKind::config,
      [&] {
        generate({{{1}, 0}}, {.max_new = 0});
      },
      "max_new");
}

TEST(GeneratorErrors, LogitsThatAreNotFinite) {
  const auto device = test::make_test_device(std::size_t{1} << 28, test::world().rank());
  test::LoadedModel model(test::golden("models/llama"), *device, test::world(), two_shards());
  kernels::fill(model.stage->final_norm().weight.value, NAN);
  for (const double temperature : {0.0, 1.0}) {
    const GeneratorOptions options{.sampling = {.temperature = temperature}, .max_new = 3};
    expect_error(
        ErrorKind::numeric,
        [&] {
          Generator(*model.stage, model.grid, options).generate({{{1, 2}, 42}});
        },
        "sample 42", "position 2");
  }
}

class CachedDecoding : public ::testing::TestWithParam<const char*> {};

// The log-probability of each token of a sequence as one forward pass over the whole of it gives.
std::vector<double> forward_logprobs(const model::Stage& stage,
                                     const std::vector<std::int32_t>& ids) {
  const model::Pass pass = exits::pass_over(stage, ids);
  const Tensor states = stage.finish(pass, stage.run_blocks(pass, stage.embed(pass))).value;
  std::vector<double> result{0};
  model::for_each_logits(
      stage, states, states.rows(),
      [&](std::int64_t, std::int64_t count, const std::vector<float>& logits) {
        const auto width = static_cast<std::size_t>(stage.spec().vocab);
        for (std::size_t r = 0; r + 1 < static_cast<std::size_t>(count); ++r) {
          double sum = 0;
          for (std::size_t v = 0; v < width; ++v) sum += std::exp(double{logits[r * width + v]});
          result.push_back(logits[r * width + static_cast<std::size_t>(ids[r + 1])] -
                           std::log(sum));
        }
      });
  return result;
}

TEST_P(CachedDecoding, EqualsOneForwardPassAtEveryPosition) {
  const auto device = test::make_test_device(std::size_t{1} << 28, test::world().rank());
  test::LoadedModel model(test::golden(std::string("models/") + GetParam()), *device, test::world(),
                          two_shards());
  const std::vector<Prompt> all = prompts(4);
  const GeneratorOptions options{.sampling = {.temperature = 1}, .max_new = 45, .batch = 3};
  const auto results = Generator(*model.stage, model.grid, options).generate(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::int32_t> ids = all[i].ids;
    ids.insert(ids.end(), results[i].ids.begin(), results[i].ids.end());
    const std::vector<double> expected = forward_logprobs(*model.stage, ids);
    for (std::size_t t = 0; t < results[i].ids.size(); ++t)
      EXPECT_NEAR(results[i].logprobs[t], expected[all[i].ids.size() + t], 5e-5)
          << "prompt " << i << ", token " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CachedDecoding,
                         ::testing::Values("gpt2", "opt", "opt-postln", "llama", "llama3",
                                           "mistral", "qwen2"));

}  // namespace
}  // namespace fathom::generate
