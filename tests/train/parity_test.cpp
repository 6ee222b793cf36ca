// Every golden decoder on every grid of this rank count: hidden states, logits, loss, gradients and
// three AdamW steps as PyTorch and transformers computed them.

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../mpi_main.h"
#include "checkpoints/safetensors.h"
#include "tests/support/golden.h"
#include "train/probe.h"

namespace fathom::train {
namespace {

using checkpoints::SafetensorsReader;

struct Case {
  std::string model;
  comm::GridShape grid;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.model + "_tp" + std::to_string(info.param.grid.tp) + "_pp" +
                     std::to_string(info.param.grid.pp) + "_dp" +
                     std::to_string(info.param.grid.dp);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // Tests are listed before MPI starts; the main checks that this is the number of ranks.
  const int ranks = std::atoi(std::getenv("FATHOM_TEST_RANKS"));
  for (const char* model : {"gpt2", "opt", "opt-postln", "llama", "llama3", "mistral", "qwen2"})
    for (int tp = 1; tp <= ranks; ++tp)
      for (int pp = 1; pp <= ranks; ++pp)
        if (ranks % (tp * pp) == 0)
          all.push_back({model, {.dp = ranks / tp / pp, .pp = pp, .tp = tp}});
  return all;
}

// One rank runs on guarded memory, to prove that host code never touches a tensor. Between ranks
// MPI copies straight out of the other process, whenever it likes, so there the memory stays open.
std::unique_ptr<Device> make_test_device() {
  constexpr std::size_t kLimit = std::size_t{1} << 30;
  return test::make_device(kLimit);
}

class Parity : public testing::TestWithParam<Case> {
 protected:
  Parity()
      : folder_(test::golden("models/" + GetParam().model)),
        device_(make_test_device()),
        grid_(test::world(), GetParam().grid, *device_) {
    config_.model.path = folder_;
    config_.grid.tp = GetParam().grid.tp;
    config_.grid.pp = GetParam().grid.pp;
    config_.grid.dp = GetParam().grid.dp;
    config_.optim = {.lr = 1e-3,
                     .beta1 = 0.9,
                     .beta2 = 0.95,
                     .eps = 1e-8,
                     .weight_decay = 0.1,
                     .decay = Decay::all,
                     .clip = 1.0};
    config_.loss.chunk_rows = 16;
    engine_ = std::make_unique<Engine>(*device_, grid_, config_, make_engine_plan(config_), true);
    engine_->load_initial_weights();
    batch_ = read_padded_batch(folder_ + "/inputs.safetensors");
  }

  std::string folder_;
  std::unique_ptr<Device> device_;
  comm::ProcessGrid grid_;
  TrainConfig config_;
  std::unique_ptr<Engine> engine_;
  PaddedBatch batch_;
};

TEST_P(Parity, LogitsHiddenStatesLossAndGradients) {
  const ProbeResult result = probe(*engine_, batch_, true);
  if (test::world().rank() != 0) return;
  const SafetensorsReader expected(folder_ + "/expected.safetensors");
  for (const auto& [name, entry] : expected.tensors()) {
    if (name == "loss") continue;
    ASSERT_TRUE(result.tensors.count(name)) << name;
    const WholeTensor& ours = result.tensors.at(name);
    EXPECT_LT(test::worst_output_difference(ours.values, expected.read_f32(name), batch_.mask,
                                            ours.shape[1]),
              5e-5)
        << name;
  }
  const double loss = expected.read_f32("loss")[0];
  EXPECT_NEAR(result.tensors.at("loss").values[0], loss, 2e-5 * loss);

  const SafetensorsReader gradients(folder_ + "/grads.safetensors");
  double total = 0;
  for (const auto& [name, entry] : gradients.tensors())
    total += std::pow(test::norm(gradients.read_f32(name)), 2);
  for (const auto& [name, entry] : gradients.tensors()) {
    ASSERT_TRUE(result.tensors.count(name)) << name;
    const std::vector<float> theirs = gradients.read_f32(name);
    // Relative, over a floor for gradients that are zero but for rounding (key biases).
    EXPECT_LT(test::distance(result.tensors.at(name).values, theirs),
              2e-5 * test::norm(theirs) + 1e-6 * std::sqrt(total))
        << name;
  }
}

TEST_P(Parity, ThreeAdamWSteps) {
  std::ifstream file(folder_ + "/expected.json");
  const auto train = nlohmann::json::parse(file).at("train");
  const data::MicroBatch whole =
      data::from_padded(batch_.ids, batch_.mask, batch_.labels, batch_.rows, batch_.length,
                        static_cast<std::int32_t>(engine_->student().spec().vocab));
  for (int step = 0; step <= 3; ++step) {
    const auto sums =
        engine_->forward_backward(rows_of_rank(batch_, grid_, engine_->student().spec().vocab),
                                  data::RoleCounts(data::count(whole)), step);
    const double expected = train.at("losses").at(static_cast<std::size_t>(step));
    EXPECT_NEAR(sums.cross_entropy / static_cast<double>(sums.tokens), expected, 2e-4 * expected)
        << step;
    if (step == 3) break;
    const double gradient_norm = engine_->optimizer().gradient_norm(grid_);
    const double expected_norm =
        train.at("grad_norms_before_clip").at(static_cast<std::size_t>(step));
    EXPECT_NEAR(gradient_norm, expected_norm, 1e-4 * expected_norm) << step;
    engine_->optimizer().step(1e-3, clip_factor(gradient_norm, 1.0));
  }
  std::vector<Fragment> fragments;
  if (grid_.place().dp == 0)
    for (const model::Parameter& parameter : engine_->student().parameters().parameters())
      append_fragments(parameter, parameter.value, parameter.name, fragments);
  const auto values = collect(test::world(), fragments);
  for (const auto& [name, whole_tensor] : values) {
    // The gradient of a key bias is zero in exact arithmetic: Adam turns its rounding into steps.
    if (name.find("k_proj.bias") != std::string::npos ||
        name.find("c_attn.bias") != std::string::npos)
      continue;
    const double l2 = train.at("params_after").at(name).at(0);
    EXPECT_NEAR(test::norm(whole_tensor.values), l2, 2e-5 * l2) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Parity, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace fathom::train
