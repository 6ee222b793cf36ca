// Early exits of models that a method has tuned: what it adds to late layers acts on tokens that
// make up for them later as well. On every grid of this rank count, against running every layer.

#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "../support/expect_error.h"
#include "generate/generator.h"
#include "planted_model.h"
#include "tests/train/small_distillation.h"

namespace fathom::generate {
namespace {

namespace fs = std::filesystem;
using methods::adapters::Kind;

struct Case {
  std::string name;
  Kind kind;  ///< none: mixture of control
  comm::GridShape grid;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [name, kind] :
       {std::pair{"lora", Kind::lora}, std::pair{"dora", Kind::dora},
        std::pair{"control", Kind::parallel_control}, std::pair{"loreft", Kind::loreft},
        std::pair{"molex", Kind::molex}, std::pair{"moc", Kind::none}})
    for (const comm::GridShape& grid : train::small::grids(train::small::launched_ranks()))
      // Two tensor ranks show what four do, and MoLEx knows no stages.
      if (grid.dp == 1 && grid.tp < 4 && (kind != Kind::molex || grid.pp == 1))
        all.push_back({name, kind, grid});
  return all;
}

class TunedExits : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::SharedDirectory(test::world(), [](const fs::path& folder) {
      testing::write_model(folder / "model", {.layers = 6}, 7);
    });
  }
  static void TearDownTestSuite() {
    test::world().barrier();
    delete files_;
  }

  TunedExits()
      : device_(test::make_test_device(std::size_t{1} << 28, test::world().rank())),
        grid_(std::make_unique<comm::ProcessGrid>(test::world(), GetParam().grid, *device_)),
        engine_(test::planted_engine(*device_, *grid_, config(4))) {}

  static train::TrainConfig config(int k) {
    train::TrainConfig config;
    config.model.path = *files_ / "model";
    config.grid.tp = GetParam().grid.tp;
    config.grid.pp = GetParam().grid.pp;
    config.mode = {.enabled = true, .spec = {.k = k}};
    config.adapter.spec.kind = GetParam().kind;
    config.adapter.spec.prefix = config.adapter.spec.suffix = 2;
    if (GetParam().kind == Kind::none)
      config.moc = {.enabled = true, .rank = 4, .alpha = 0.6, .top_k = 2};
    return config;
  }

  std::vector<Continuation> generate(const ExitOptions& exit) {
    std::vector<Prompt> prompts;
    for (std::size_t i = 0; i < 5; ++i) {
      Prompt prompt{.ids = {}, .sample = i};
      for (std::size_t j = 0; j < 4 + i; ++j)
        prompt.ids.push_back(static_cast<std::int32_t>(3 + (i * 37 + j * 101) % 490));
      prompts.push_back(prompt);
    }
    Generator generator(engine_->student(), *grid_,
                        {.max_new = 20, .batch = 3, .vote = engine_->vote(), .exit = exit});
    auto results = generator.generate(prompts);
    counts_ = generator.exit_counts();
    return results;
  }

  static testing::SharedDirectory* files_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<comm::ProcessGrid> grid_;
  std::unique_ptr<train::Engine> engine_;
  ExitCounts counts_;
};

testing::SharedDirectory* TunedExits::files_ = nullptr;

TEST_P(TunedExits, DeferredLayersAreThoseOfEveryToken) {
  for (const std::int64_t flush : {3, 0}) {
    ExitOptions exit{.policy = ExitPolicy::topk, .topk = 1, .flush = flush};
    const auto deferred = generate(exit);
    EXPECT_LT(counts_.tokens.back(), counts_.total());  // some leave
    exit.cache = ExitCache::off;
    const auto off = generate(exit);
    for (std::size_t i = 0; i < off.size(); ++i) {
      EXPECT_EQ(deferred[i].ids, off[i].ids) << "prompt " << i << ", flush " << flush;
      for (std::size_t t = 0; t < off[i].ids.size(); ++t)
        EXPECT_NEAR(deferred[i].logprobs[t], off[i].logprobs[t], 5e-5) << i << ", token " << t;
    }
  }
}

// Prompts run through all layers, so that the first token is the same; what runs beside a layer
// cannot be copied.
TEST_P(TunedExits, CopiesBeginAlike) {
  ExitOptions exit{.policy = ExitPolicy::topk, .topk = 1, .cache = ExitCache::copy};
  if (GetParam().kind == Kind::molex) {
    testing::expect_error(
        ErrorKind::config, [&] { generate(exit); }, "--exit-cache=copy: layer", "MoLEx");
    return;
  }
  const auto copy = generate(exit);
  exit.cache = ExitCache::off;
  const auto off = generate(exit);
  for (std::size_t i = 0; i < off.size(); ++i)
    EXPECT_NEAR(copy[i].logprobs.front(), off[i].logprobs.front(), 5e-5) << "prompt " << i;
}

// The first layer above an exit sees the state at the exit itself, and with two late layers there
// is no other: keys and values that an adapter changes are copied as they would have been made.
TEST_P(TunedExits, CopiesOfOneLayerAreExact) {
  if (GetParam().kind == Kind::molex) GTEST_SKIP() << "what runs beside a layer is not copied";
  train::TrainConfig of_two = config(2);
  if (of_two.adapter.spec.on_linear_layers()) of_two.adapter.spec.targets = {"k_proj", "v_proj"};
  engine_ = test::planted_engine(*device_, *grid_, of_two);
  ExitOptions exit{.policy = ExitPolicy::topk, .topk = 1, .cache = ExitCache::copy};
  const auto copy = generate(exit);
  EXPECT_GT(counts_.tokens.front(), 0);
  EXPECT_GT(counts_.tokens.back(), 0);
  exit.cache = ExitCache::off;
  const auto off = generate(exit);
  for (std::size_t i = 0; i < off.size(); ++i) {
    EXPECT_EQ(copy[i].ids, off[i].ids) << "prompt " << i;
    for (std::size_t t = 0; t < off[i].ids.size(); ++t)
      EXPECT_NEAR(copy[i].logprobs[t], off[i].logprobs[t], 5e-5) << i << ", token " << t;
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name + "_" + train::small::name_of(info.param.grid);
}

INSTANTIATE_TEST_SUITE_P(Methods, TunedExits, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace fathom::generate
