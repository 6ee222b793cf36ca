// Decoding that leaves late layers early, on every grid of this rank count, against its definition
// on whole sequences.

#include <fstream>
#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "../support/expect_error.h"
#include "exit_reference.h"
#include "tests/train/mode_golden.h"
#include "tests/train/small_distillation.h"

namespace fathom::generate {
namespace {

namespace golden = train::mode_golden;

// An engine that can only generate. Its router is planted: the golden one scaled up, so that tokens
// leave at all layers and few have two layers of nearly equal weight.
struct Decoding {
  Decoding(const std::string& name, Device& device, comm::Communicator& world,
           const comm::GridShape& shape, float scale)
      : grid(world, shape, device) {
    const std::string folder = test::golden("methods/" + name);
    nlohmann::json expected;
    std::ifstream(folder + "/expected.json") >> expected;
    const train::TrainConfig config = golden::config(expected.at("options"), shape);
    engine = std::make_unique<train::Engine>(device, grid, config, train::make_engine_plan(config),
                                             false);
    golden::load(*engine, config, folder);
    if (!grid.is_last_stage()) return;
    kernels::scale(engine->vote()->router().weight.value, scale);
  }

  std::vector<Continuation> generate(const std::vector<Prompt>& prompts, GeneratorOptions options) {
    options.vote = engine->vote();
    Generator generator(engine->student(), grid, options);
    auto results = generator.generate(prompts);
    counts = generator.exit_counts();
    time = generator.decode_time();
    return results;
  }

  comm::ProcessGrid grid;
  std::unique_ptr<train::Engine> engine;
  ExitCounts counts;
  DecodeTime time;
};

std::vector<Prompt> prompts() {
  std::vector<Prompt> all;
  for (std::size_t i = 0; i < 7; ++i) {
    Prompt prompt{.ids = {}, .sample = i};
    for (std::size_t j = 0; j < 2 + i * 5 % 7; ++j)
      prompt.ids.push_back(static_cast<std::int32_t>(3 + (i * 37 + j * 101) % 290));
    all.push_back(prompt);
  }
  return all;
}

struct Case {
  std::string name;
  comm::GridShape grid;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"mode-llama-k3", "mode-gpt2-k3", "mode-llama-k2-light"})
    for (const comm::GridShape& grid : train::small::grids(train::small::launched_ranks()))
      if (grid.dp == 1 && grid.tp < 4)  // two tensor ranks show what four do
        all.push_back({name, grid});
  return all;
}

class Exits : public ::testing::TestWithParam<Case> {
 protected:
  Exits()
      : device_(test::make_test_device(std::size_t{1} << 28, test::world().rank())),
        self_(comm::self_communicator()),
        here_(GetParam().name, *device_, test::world(), GetParam().grid, kScale),
        whole_(GetParam().name, *device_, *self_, {}, kScale) {}

  std::int64_t k() const { return whole_.engine->vote()->spec().k; }

  // Greedy continuations are what the definition finds likeliest, and leave where it says.
  void expect_definition(const ExitOptions& exit, std::int64_t batch) {
    SCOPED_TRACE(str("policy ", static_cast<int>(exit.policy), " (", exit.topk, ", ",
                     exit.threshold, "), cache ", static_cast<int>(exit.cache), ", flush ",
                     exit.flush, ", batch ", batch));
    const auto all = prompts();
    const auto results = here_.generate(all, {.max_new = 18, .batch = batch, .exit = exit});
    ExitCounts counts(static_cast<std::size_t>(k()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<std::int32_t> ids = all[i].ids;
      const std::size_t prompt = ids.size(), count = results[i].ids.size();
      ASSERT_EQ(count, 18u);
      ids.insert(ids.end(), results[i].ids.begin(), results[i].ids.end());
      const auto expected =
          exits::reference(whole_.engine->student(), *whole_.engine->vote(), exit, ids, prompt);
      for (std::size_t t = 0; t < count; ++t) {
        const exits::Doubles& row = expected.logprobs[prompt + t - 1];
        const double chosen = row[static_cast<std::size_t>(results[i].ids[t])];
        EXPECT_NEAR(results[i].logprobs[t], chosen, kTolerance) << i << ", token " << t;
        EXPECT_NEAR(chosen, *std::max_element(row.begin(), row.end()), kTolerance);
        if (t > 0) ++counts.tokens[static_cast<std::size_t>(expected.depths[prompt + t - 1] - 1)];
      }
    }
    EXPECT_EQ(here_.counts.tokens, counts.tokens);
  }

  static constexpr float kScale = 6;
  static constexpr double kTolerance = 5e-5;  // of log-probabilities in f32, as without exits
  std::unique_ptr<Device> device_;
  std::unique_ptr<comm::Communicator> self_;
  Decoding here_, whole_;
};

TEST_P(Exits, DeferredKeysAreThoseOfEveryLayer) {
  for (const std::int64_t flush : {1, 2, 8, 0})
    expect_definition({.policy = ExitPolicy::topk, .topk = 1, .flush = flush}, 3);
  expect_definition({.policy = ExitPolicy::topk, .topk = 1}, 1);
  for (int topk = 2; topk <= k(); ++topk)
    expect_definition({.policy = ExitPolicy::topk, .topk = topk, .flush = 3}, 3);
  for (const double share : {0.3, 0.7, 1.0})
    expect_definition({.policy = ExitPolicy::threshold, .threshold = share, .flush = 4}, 4);
}

TEST_P(Exits, OtherCachesAreWhatTheySay) {
  for (const ExitCache cache : {ExitCache::copy, ExitCache::off}) {
    expect_definition({.policy = ExitPolicy::topk, .topk = 1, .cache = cache}, 3);
    expect_definition({.policy = ExitPolicy::threshold, .threshold = 0.6, .cache = cache}, 2);
  }
}

// Token by token: deferred is off; copy begins alike and goes its own way once a token has left.
TEST_P(Exits, CachesComparedTokenByToken) {
  const auto run = [&](ExitCache cache) {
    const ExitOptions exit{.policy = ExitPolicy::topk, .topk = 1, .cache = cache};
    return here_.generate(prompts(), {.max_new = 18, .batch = 3, .exit = exit});
  };
  const auto off = run(ExitCache::off), deferred = run(ExitCache::deferred),
             copy = run(ExitCache::copy);
  double furthest = 0;
  for (std::size_t i = 0; i < off.size(); ++i) {
    EXPECT_EQ(deferred[i].ids, off[i].ids) << "prompt " << i;
    EXPECT_EQ(copy[i].ids.front(), off[i].ids.front());
    EXPECT_NEAR(copy[i].logprobs.front(), off[i].logprobs.front(), 1e-6);
    for (std::size_t t = 0; t < off[i].ids.size(); ++t) {
      EXPECT_NEAR(deferred[i].logprobs[t], off[i].logprobs[t], 2e-5) << i << ", token " << t;
      furthest = std::max(furthest, std::fabs(double{copy[i].logprobs[t]} - off[i].logprobs[t]));
    }
  }
  // The first layer above an exit would see the state at the exit itself.
  if (k() == 2)
    EXPECT_LT(furthest, 2e-5);
  else
    EXPECT_GT(furthest, 1e-3);
}

// What the tests above are about happens: tokens leave at every late layer, in one batch.
TEST_P(Exits, TokensLeaveEverywhere) {
  const ExitOptions exit{.policy = ExitPolicy::topk, .topk = 1};
  here_.generate(prompts(), {.max_new = 18, .batch = 3, .exit = exit});
  for (const std::int64_t tokens : here_.counts.tokens) EXPECT_GT(tokens, 0);
  EXPECT_EQ(here_.counts.total(), 7 * 17);
  EXPECT_GT(here_.counts.bound(whole_.engine->student().spec()), 1);
}

// Where a late layer has all the weight, the others may as well not vote.
TEST_P(Exits, AllWeightOnTheChosenLayersIsDenseDecoding) {
  const auto plant = [&](float scale, const std::vector<float>& bias) {
    if (!here_.grid.is_last_stage()) return;
    const methods::mode::RouterWeights& router = here_.engine->vote()->router();
    kernels::scale(router.weight.value, scale);
    if (!bias.empty()) copy_from_host(router.bias.value, bias);
  };
  const auto expect_dense = [&](int topk) {
    const auto dense = here_.generate(prompts(), {.max_new = 18, .batch = 3});
    const ExitOptions exit{.policy = ExitPolicy::topk, .topk = topk};
    const auto chosen = here_.generate(prompts(), {.max_new = 18, .batch = 3, .exit = exit});
    for (std::size_t i = 0; i < dense.size(); ++i) {
      EXPECT_EQ(chosen[i].ids, dense[i].ids) << "prompt " << i;
      for (std::size_t t = 0; t < dense[i].ids.size(); ++t)
        EXPECT_NEAR(chosen[i].logprobs[t], dense[i].logprobs[t], kTolerance) << i << ", " << t;
    }
  };
  plant(1000, {});  // another layer for every token, with the weight 1 to rounding
  expect_dense(1);
  EXPECT_GT(here_.counts.tokens.front(), 0);
  EXPECT_GT(here_.counts.tokens.back(), 0);
  for (int last = 1; last < k(); ++last) {  // two layers for all tokens
    std::vector<float> bias(static_cast<std::size_t>(k()), 0.0f);
    bias[0] = bias[static_cast<std::size_t>(last)] = 50;
    plant(0, bias);
    expect_dense(2);
    EXPECT_EQ(here_.counts.tokens[static_cast<std::size_t>(last)], 7 * 17);
  }
}

// Processors may round unlike: what the other tensor ranks find does not count.
TEST_P(Exits, TensorRanksFollowTheFirst) {
  if (here_.grid.is_last_stage() && here_.grid.place().tp > 0)
    kernels::scale(here_.engine->vote()->router().weight.value, -1);
  expect_definition({.policy = ExitPolicy::topk, .topk = 1, .flush = 3}, 3);
  expect_definition({.policy = ExitPolicy::threshold, .threshold = 0.6, .flush = 3}, 3);
}

// A sequence that ends leaves its waiting tokens behind; the next one in its slot starts afresh.
TEST_P(Exits, EndedSequencesOweNothing) {
  GeneratorOptions options{
      .max_new = 18, .batch = 2, .exit = {.policy = ExitPolicy::topk, .topk = 1, .flush = 0}};
  const auto open = here_.generate(prompts(), options);
  options.stop_ids = {open[0].ids[3], open[2].ids[7], open[5].ids[1]};
  const auto stopped = here_.generate(prompts(), options);
  bool early = false;
  for (std::size_t i = 0; i < open.size(); ++i) {
    ASSERT_TRUE(std::equal(stopped[i].ids.begin(), stopped[i].ids.end(), open[i].ids.begin()));
    for (std::size_t t = 0; t < stopped[i].ids.size(); ++t)
      EXPECT_NEAR(stopped[i].logprobs[t], open[i].logprobs[t], 2e-5) << i << ", token " << t;
    early = early || stopped[i].reason == StopReason::stop_id;
  }
  EXPECT_TRUE(early);
}

// All tokens leave at the first late layer: the others run when the list is full, and only then.
TEST_P(Exits, LayersAboveTheFirstRunForAFullListAlone) {
  for (Decoding* model : {&here_, &whole_}) {
    if (!model->grid.is_last_stage()) continue;
    kernels::fill(model->engine->vote()->router().weight.value, 0.0f);
    std::vector<float> bias(static_cast<std::size_t>(k()), 0.0f);
    bias.front() = 50;
    copy_from_host(model->engine->vote()->router().bias.value, bias);
  }
  const std::vector<Prompt> one{prompts()[3]};
  const auto runs = [&](const ExitOptions& exit) {
    here_.generate(one, {.max_new = 17, .batch = 1, .exit = exit});
    EXPECT_EQ(here_.counts.tokens.front(), 16);
    EXPECT_EQ(here_.counts.steps, 16);
    EXPECT_EQ(here_.counts.runs.front(), 16);
    EXPECT_EQ(here_.time.tokens, 15) << "the first step runs in the round that takes the prompt's";
    EXPECT_GT(here_.time.rate(), 0);
    return here_.counts.runs.back();
  };
  EXPECT_EQ(runs({.policy = ExitPolicy::topk, .topk = 1, .flush = 4}), 4);
  EXPECT_EQ(runs({.policy = ExitPolicy::topk, .topk = 1, .flush = 0}), 0);
  EXPECT_EQ(runs({.policy = ExitPolicy::threshold, .threshold = 0.99, .flush = 5}), 3);
  const ExitOptions copy{.policy = ExitPolicy::topk, .topk = 1, .cache = ExitCache::copy};
  EXPECT_EQ(runs(copy), 0);
  EXPECT_EQ(here_.counts.copies.back(), 16);
  EXPECT_EQ(runs({.policy = ExitPolicy::topk, .topk = 1, .cache = ExitCache::off}), 16);
  expect_definition({.policy = ExitPolicy::topk, .topk = 1, .flush = 0}, 1);
}

TEST_P(Exits, SamplesDoNotDependOnTheirCompany) {
  GeneratorOptions options{.sampling = {.temperature = 1.2, .top_p = 0.9, .seed = 5},
                           .max_new = 12,
                           .batch = 1,
                           .exit = {.policy = ExitPolicy::topk, .topk = 1, .flush = 3}};
  const auto alone = here_.generate(prompts(), options);
  options.batch = 5;
  const auto together = here_.generate(prompts(), options);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(together[i].ids, alone[i].ids);
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name + "_" + train::small::name_of(info.param.grid);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Golden, Exits, ::testing::ValuesIn(cases()), name_of);

TEST(ExitErrors, AModelWhoseLastLayerSpeaksAlone) {
  const auto device = test::make_device(std::size_t{1} << 28);
  const auto self = comm::self_communicator();
  Decoding model("mode-llama-k3", *device, *self, {}, 1);
  fathom::testing::expect_error(
      ErrorKind::config,
      [&] {
        Generator(model.engine->student(), model.grid,
                  {.exit = {.policy = ExitPolicy::topk, .topk = 1}});
      },
      "--exit=topk: the model has no router");
}

}  // namespace
}  // namespace fathom::generate
