// Decoding with routers and norms other than the published ones, with all layers voting, and with
// fewer layers than a model was made with: each continuation against the definition on whole
// sequences, on every grid of this rank count.

#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "exit_reference.h"
#include "planted_model.h"
#include "tests/train/small_distillation.h"

namespace fathom::generate {
namespace {

namespace fs = std::filesystem;
using methods::mode::ModeSpec;
using methods::mode::Norms;
using methods::mode::Router;
using methods::mode::RouterInput;

constexpr int kLayers = 6;

struct Variant {
  std::string name;
  ModeSpec spec;
  int kept_k = 0;  ///< late layers that remain; 0: all
};

std::vector<Variant> variants() {
  return {{"rms", {.k = 3, .router_input = RouterInput::rms}},
          {"shared", {.k = 3, .norms = Norms::shared}},
          {"none", {.k = 3, .norms = Norms::none}},
          {"uniform", {.k = 3, .router = Router::uniform}},
          {"all_layers", {.k = kLayers}},
          {"shrunk", {.k = 5}, 3}};
}

struct Case {
  Variant variant;
  comm::GridShape grid;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Variant& variant : variants())
    for (const comm::GridShape& grid : train::small::grids(train::small::launched_ranks()))
      if (grid.dp == 1 && grid.tp < 4)  // two tensor ranks show what four do
        all.push_back({variant, grid});
  return all;
}

class ExitVariants : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::SharedDirectory(test::world(), [](const fs::path& folder) {
      testing::write_model(folder / "model", {.layers = kLayers}, 7);
    });
  }
  static void TearDownTestSuite() {
    test::world().barrier();
    delete files_;
  }

  ExitVariants()
      : device_(test::make_test_device(std::size_t{1} << 28, test::world().rank())),
        self_(comm::self_communicator()),
        grid_(test::world(), GetParam().grid, *device_),
        whole_grid_(*self_, {}, *device_),
        here_(engine(grid_, GetParam().grid)),
        whole_(engine(whole_grid_, {})) {}

  std::unique_ptr<train::Engine> engine(comm::ProcessGrid& grid, const comm::GridShape& shape) {
    train::TrainConfig config;
    config.model.path = *files_ / "model";
    config.grid.tp = shape.tp;
    config.grid.pp = shape.pp;
    config.mode = {.enabled = true, .spec = GetParam().variant.spec};
    auto engine = test::planted_engine(*device_, grid, config);
    if (GetParam().variant.kept_k > 0) engine->keep_late_layers(GetParam().variant.kept_k);
    return engine;
  }

  // Greedy continuations are what the definition finds likeliest.
  void expect_definition(const ExitOptions& exit) {
    std::vector<Prompt> prompts;
    for (std::size_t i = 0; i < 5; ++i) {
      Prompt prompt{.ids = {}, .sample = i};
      for (std::size_t j = 0; j < 3 + i; ++j)
        prompt.ids.push_back(static_cast<std::int32_t>(3 + (i * 37 + j * 101) % 490));
      prompts.push_back(prompt);
    }
    Generator generator(here_->student(), grid_,
                        {.max_new = 16, .batch = 3, .vote = here_->vote(), .exit = exit});
    const auto results = generator.generate(prompts);
    counts_ = generator.exit_counts();
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      std::vector<std::int32_t> ids = prompts[i].ids;
      const std::size_t prompt = ids.size();
      ids.insert(ids.end(), results[i].ids.begin(), results[i].ids.end());
      const exits::Reference expected =
          exits::reference(whole_->student(), *whole_->vote(), exit, ids, prompt);
      for (std::size_t t = 0; t < results[i].ids.size(); ++t) {
        const exits::Doubles& row = expected.logprobs[prompt + t - 1];
        const double chosen = row[static_cast<std::size_t>(results[i].ids[t])];
        EXPECT_NEAR(results[i].logprobs[t], chosen, 5e-5) << i << ", token " << t;
        EXPECT_NEAR(chosen, *std::max_element(row.begin(), row.end()), 5e-5) << i << ", " << t;
      }
    }
  }

  static testing::SharedDirectory* files_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<comm::Communicator> self_;
  comm::ProcessGrid grid_, whole_grid_;
  std::unique_ptr<train::Engine> here_, whole_;
  ExitCounts counts_;
};

testing::SharedDirectory* ExitVariants::files_ = nullptr;

TEST_P(ExitVariants, DecodeAsDefined) {
  expect_definition({});
  if (!whole_->vote()->spec().routed()) return;
  expect_definition({.policy = ExitPolicy::topk, .topk = 1, .flush = 3});
  EXPECT_LT(counts_.tokens.back(), counts_.total()) << "some leave";
  expect_definition({.policy = ExitPolicy::topk, .topk = 2, .flush = 0});
  expect_definition({.policy = ExitPolicy::threshold, .threshold = 0.6});
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return info.param.variant.name + "_" + train::small::name_of(info.param.grid);
}

INSTANTIATE_TEST_SUITE_P(Modes, ExitVariants, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace fathom::generate
