// MoDE on golden models, on every grid of this rank count: logits, loss terms, gradients and three
// AdamW steps as plain PyTorch computed them. With four stages the late layers lie on two or more.

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../mpi_main.h"
#include "checkpoints/safetensors.h"
#include "tests/train/mode_golden.h"
#include "tests/train/small_distillation.h"
#include "train/probe.h"

namespace fathom::train {
namespace {

using checkpoints::SafetensorsReader;
using nlohmann::json;

struct Case {
  std::string name;
  comm::GridShape grid;
  Recompute recompute = Recompute::cheap;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"mode-llama-k3", "mode-llama-k3-top1", "mode-llama-k3-top2",
                           "mode-gpt2-k3", "mode-llama-k2-light"})
    for (const comm::GridShape& grid : small::grids(small::launched_ranks()))
      all.push_back({name, grid});
  all.push_back({"mode-llama-k3", small::grids(small::launched_ranks()).front(), Recompute::block});
  return all;
}

class ModeParity : public ::testing::TestWithParam<Case> {
 protected:
  ModeParity()
      : folder_(test::golden("methods/" + GetParam().name)),
        device_(test::make_device(std::size_t{1} << 28)),
        grid_(test::world(), GetParam().grid, *device_) {
    std::ifstream(folder_ + "/expected.json") >> expected_;
    config_ = mode_golden::config(expected_.at("options"), GetParam().grid);
    light_ = config_.mode.light;
    config_.memory.recompute = GetParam().recompute;
    config_.optim = {
        .lr = 1e-3, .beta2 = 0.95, .weight_decay = 0.1, .decay = Decay::all, .clip = 1.0};
    engine_ = std::make_unique<Engine>(*device_, grid_, config_, make_engine_plan(config_), true);
    mode_golden::load(*engine_, config_, folder_);
    batch_ = read_padded_batch(config_.model.path + "/inputs.safetensors");
  }

  double term(const std::string& name) const {
    for (const methods::StateTerm& term : engine_->state_terms())
      if (term.name == name) return term.sum / term.count;
    ADD_FAILURE() << "no term " << name;
    return 0;
  }

  double total(const model::LossSums& sums) const {
    return sums.cross_entropy / static_cast<double>(sums.tokens) +
           config_.mode.lambda * term("mode_distill");
  }

  std::string folder_;
  json expected_;
  bool light_ = false;
  std::unique_ptr<Device> device_;
  comm::ProcessGrid grid_;
  TrainConfig config_;
  std::unique_ptr<Engine> engine_;
  PaddedBatch batch_;
};

TEST_P(ModeParity, LogitsTermsAndGradients) {
  const ProbeResult result = probe(*engine_, batch_, true);
  const json& terms = expected_.at("terms");
  const double tokens = static_cast<double>(result.sums.tokens);
  const double task = terms.at("task"), loss = expected_.at("loss");
  EXPECT_NEAR(result.sums.cross_entropy / tokens, task, 2e-5 * task);
  const double distill = terms.at("distill");
  EXPECT_NEAR(term("mode_distill"), distill, 2e-5 * distill);
  EXPECT_NEAR(total(result.sums), loss, 2e-5 * loss);
  const double gradient_norm = expected_.at("grad_norm");
  EXPECT_NEAR(engine_->optimizer().gradient_norm(grid_), gradient_norm, 2e-4 * gradient_norm);
  if (test::world().rank() != 0) return;

  const std::vector<float> logits =
      SafetensorsReader(folder_ + "/expected.safetensors").read_f32("logits");
  const WholeTensor& ours = result.tensors.at("logits");
  EXPECT_LT(test::worst_output_difference(ours.values, logits, batch_.mask, ours.shape[1]), 5e-5);

  const SafetensorsReader gradients(folder_ + "/grads.safetensors");
  std::size_t compared = 0;
  for (const auto& [name, tensor] : result.tensors) {
    if (!name.starts_with("grad.")) continue;
    const std::string golden =
        "grad." + mode_golden::name_of(name.substr(5), light_, engine_->student().spec().layers);
    ASSERT_TRUE(gradients.contains(golden)) << golden;
    const std::vector<float> theirs = gradients.read_f32(golden);
    EXPECT_LT(test::distance(tensor.values, theirs),
              2e-4 * test::norm(theirs) + 1e-6 * gradient_norm)
        << name;
    ++compared;
  }
  EXPECT_EQ(compared, gradients.tensors().size());
}

// Without gradients the mixture is made of states, and says the same.
TEST_P(ModeParity, EvaluationSeesTheMixture) {
  const ProbeResult result = probe(*engine_, batch_, false);
  const double task = expected_.at("terms").at("task");
  EXPECT_NEAR(result.sums.cross_entropy / static_cast<double>(result.sums.tokens), task,
              2e-5 * task);
  EXPECT_EQ(result.sums.tokens,
            data::count(data::from_padded(batch_.ids, batch_.mask, batch_.labels, batch_.rows,
                                          batch_.length, 503))
                .label_tokens);
}

TEST_P(ModeParity, ThreeAdamWSteps) {
  const json& train = expected_.at("train");
  const std::int64_t vocab = engine_->student().spec().vocab;
  const data::RoleCounts counts(
      data::count(data::from_padded(batch_.ids, batch_.mask, batch_.labels, batch_.rows,
                                    batch_.length, static_cast<std::int32_t>(vocab))));
  for (std::size_t step = 0; step <= 3; ++step) {
    const auto sums = engine_->forward_backward(rows_of_rank(batch_, grid_, vocab), counts,
                                                static_cast<std::int64_t>(step));
    const double expected = train.at("losses").at(step);
    EXPECT_NEAR(total(sums), expected, 2e-4 * expected) << step;
    if (step == 3) break;
    const double gradient_norm = engine_->optimizer().gradient_norm(grid_);
    const double expected_norm = train.at("grad_norms").at(step);
    EXPECT_NEAR(gradient_norm, expected_norm, 2e-3 * expected_norm) << step;
    engine_->update(config_.optim.lr, clip_factor(gradient_norm, config_.optim.clip));
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name + "_" + small::name_of(info.param.grid);
  if (info.param.recompute == Recompute::block) name += "_block";
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Golden, ModeParity, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace fathom::train
