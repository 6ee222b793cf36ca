// Decoding with late layers that vote, on every grid of this rank count: each next token that
// PyTorch found, and the cache against whole prompts.

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "generate/generator.h"
#include "tests/train/mode_golden.h"
#include "tests/train/small_distillation.h"
#include "train/probe.h"

namespace fathom::generate {
namespace {

namespace golden = train::mode_golden;

struct Case {
  std::string name;
  comm::GridShape grid;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"mode-llama-k3", "mode-llama-k3-top1", "mode-llama-k3-top2",
                           "mode-gpt2-k3", "mode-llama-k2-light"})
    for (const comm::GridShape& grid : train::small::grids(train::small::launched_ranks()))
      all.push_back({name, grid});
  return all;
}

class VotedTokens : public ::testing::TestWithParam<Case> {
 protected:
  VotedTokens()
      : folder_(test::golden("methods/" + GetParam().name)),
        device_(test::make_device(std::size_t{1} << 28)),
        grid_(test::world(), GetParam().grid, *device_) {
    nlohmann::json expected;
    std::ifstream(folder_ + "/expected.json") >> expected;
    const train::TrainConfig config = golden::config(expected.at("options"), GetParam().grid);
    engine_ = std::make_unique<train::Engine>(*device_, grid_, config,
                                              train::make_engine_plan(config), false);
    golden::load(*engine_, config, folder_);
    batch_ = train::read_padded_batch(config.model.path + "/inputs.safetensors");
  }

  std::vector<Continuation> generate(const std::vector<Prompt>& prompts, std::int64_t added) {
    return Generator(engine_->student(), grid_,
                     {.max_new = added, .batch = 3, .vote = engine_->vote()})
        .generate(prompts);
  }

  std::string folder_;
  std::unique_ptr<Device> device_;
  comm::ProcessGrid grid_;
  std::unique_ptr<train::Engine> engine_;
  train::PaddedBatch batch_;
};

TEST_P(VotedTokens, TheNextTokenOfEveryPrefix) {
  const checkpoints::SafetensorsReader outputs(folder_ + "/expected.safetensors");
  const std::vector<float> logits = outputs.read_f32("logits");
  const auto vocab = static_cast<std::size_t>(engine_->student().spec().vocab);
  std::vector<Prompt> prompts;
  std::vector<std::int32_t> best;
  for (std::size_t at = 0; at < batch_.ids.size(); ++at) {
    const std::size_t row = at / static_cast<std::size_t>(batch_.length);
    const std::size_t begin = row * static_cast<std::size_t>(batch_.length);
    // Sequences that are padded on the left would begin elsewhere.
    if (batch_.mask[begin] == 0 || batch_.mask[at] == 0) continue;
    prompts.push_back({{batch_.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                        batch_.ids.begin() + static_cast<std::ptrdiff_t>(at) + 1},
                       prompts.size()});
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(at * vocab);
    best.push_back(static_cast<std::int32_t>(
        std::max_element(first, first + static_cast<std::ptrdiff_t>(vocab)) - first));
  }
  ASSERT_GE(prompts.size(), 24u);
  const auto results = generate(prompts, 1);
  for (std::size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(results[i].ids, std::vector<std::int32_t>{best[i]}) << "prefix " << i;
}

// A token that is fed alone, with the rest in the cache, is followed by what follows the whole
// text.
TEST_P(VotedTokens, TheCacheEqualsWholePrompts) {
  std::vector<Prompt> prompts;
  for (std::size_t length : {3u, 5u, 9u, 14u})
    prompts.push_back(
        {{batch_.ids.begin(), batch_.ids.begin() + static_cast<std::ptrdiff_t>(length)},
         prompts.size()});
  const auto whole = generate(prompts, 6);
  for (std::size_t t = 1; t < 6; ++t) {
    std::vector<Prompt> longer = prompts;
    for (std::size_t i = 0; i < prompts.size(); ++i)
      longer[i].ids.insert(longer[i].ids.end(), whole[i].ids.begin(),
                           whole[i].ids.begin() + static_cast<std::ptrdiff_t>(t));
    const auto next = generate(longer, 1);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(next[i].ids[0], whole[i].ids[t]) << i << ", token " << t;
      EXPECT_NEAR(next[i].logprobs[0], whole[i].logprobs[t], 5e-5) << i << ", token " << t;
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name + "_" + train::small::name_of(info.param.grid);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Golden, VotedTokens, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace fathom::generate
