// Greedy decoding of every golden decoder on every grid of this rank count: the tokens and
// log-probabilities that transformers computed.

#include "tests/support/golden.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../mpi_main.h"
#include "loaded_model.h"

namespace fathom::generate {
namespace {

struct Case {
  std::string model;
  comm::GridShape grid;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  const comm::GridShape& grid = info.param.grid;
  std::string name = str(info.param.model, "_tp", grid.tp, "_pp", grid.pp, "_dp", grid.dp);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // Tests are listed before MPI starts; the main checks that this is the number of ranks.
  const int ranks = std::atoi(std::getenv("FATHOM_TEST_RANKS"));
  for (const char* name : {"gpt2", "opt", "opt-postln", "llama", "llama3", "mistral", "qwen2"})
    for (int tp = 1; tp <= ranks; ++tp)
      for (int pp = 1; pp <= ranks; ++pp)
        if (ranks % (tp * pp) == 0)
          all.push_back({name, {.dp = ranks / tp / pp, .pp = pp, .tp = tp}});
  return all;
}

class GoldenGreedy : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenGreedy, SameTokensAndLogProbabilities) {
  const std::string folder = test::golden("models/" + GetParam().model);
  const auto device = test::make_test_device(std::size_t{1} << 28, test::world().rank());
  test::LoadedModel model(folder, *device, test::world(), GetParam().grid);
  std::ifstream file(folder + "/expected.json");
  const auto greedy = nlohmann::json::parse(file).at("greedy");
  const auto expected = greedy.at("new_ids").get<std::vector<std::int32_t>>();
  const auto logprobs = greedy.at("logprobs").get<std::vector<float>>();

  GeneratorOptions options;
  options.max_new = static_cast<std::int64_t>(expected.size());
  Generator generator(*model.stage, model.grid, options);
  // The prompt twice, beside shorter ones, so that batching is part of the comparison.
  const auto prompt = greedy.at("prompt").get<std::vector<std::int32_t>>();
  const std::vector<std::int32_t> shorter(prompt.begin(), prompt.begin() + 3);
  const auto results = generator.generate({{shorter, 0}, {prompt, 1}, {prompt, 2}, {shorter, 3}});
  for (const std::size_t i : {1u, 2u}) {
    EXPECT_EQ(results[i].ids, expected);
    ASSERT_EQ(results[i].logprobs.size(), logprobs.size());
    for (std::size_t t = 0; t < logprobs.size(); ++t)
      EXPECT_NEAR(results[i].logprobs[t], logprobs[t], 5e-5) << "token " << t;
  }
  EXPECT_EQ(results[0].ids, results[3].ids);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenGreedy, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace fathom::generate
