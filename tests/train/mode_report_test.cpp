// What late layers that vote add to a published model, as its paper counts it, and what bringing
// them together over a pipeline costs.

#include "train/mode_report.h"

#include <gtest/gtest.h>

#include "train/mode_transport.h"

namespace fathom::train {
namespace {

using methods::mode::Transport;

model::ModelSpec llama2_7b() {
  model::ModelSpec spec;
  spec.layers = 32;
  spec.hidden = spec.embed_dim = 4096;
  spec.heads = spec.kv_heads = 32;
  spec.head_dim = 128;
  spec.ffn = 11008;
  spec.vocab = 32000;
  spec.max_positions = 4096;
  spec.tied = false;
  return spec;
}

// Two layers on each of 16 stages, so that three late layers are on two of them.
EnginePlan plan_of_16_stages() {
  EnginePlan plan{.student = llama2_7b(),
                  .teacher = std::nullopt,
                  .student_from_teacher = {},
                  .student_layers = pipeline::Partition(std::vector<int>(16, 2)),
                  .teacher_layers = std::nullopt};
  plan.loss_vocab = plan.student.vocab;
  plan.context = 128;
  plan.set_mode({.k = 3}, "");
  return plan;
}

TEST(ModeReport, CountsParametersAsThePaperDoes) {
  EnginePlan plan = plan_of_16_stages();
  EXPECT_EQ(plan.student.parameters(), 6738415616);
  EXPECT_EQ(mode_parameters(plan),
            "mode: the last 3 layers vote with 20483 parameters of their own, 24579 trained with "
            "the final norm: 0.0003 % of the model's parameters");
  methods::adapters::AdapterSpec lora;
  lora.kind = methods::adapters::Kind::lora;
  lora.rank = 32;
  lora.targets = {"q_proj", "k_proj", "v_proj", "up_proj", "down_proj"};
  plan.set_adapter(lora, "");
  EXPECT_NE(mode_parameters(plan).find("0.037 % of the 56098816 that the adapter trains"),
            std::string::npos)
      << mode_parameters(plan);
}

TEST(ModeReport, WeighsStatesAgainstWhatElseCouldTravel) {
  const EnginePlan plan = plan_of_16_stages();
  TrainConfig config;
  config.grid.pp = 16;
  config.batch.micro_batch = 2;
  config.mode.enabled = true;
  const double tokens = 2 * 128, width = 4096, vocab = 32000;
  const ModeTransport distilled = mode_transport(config, plan);
  // H_29 feeds the router; H_30 is what passes from stage 14 to 15 anyway.
  EXPECT_EQ(distilled.state_bytes, 4 * tokens * width);
  EXPECT_EQ(distilled.logit_bytes, 4 * tokens * vocab);
  EXPECT_EQ(distilled.head_bytes, 4 * vocab * width);
  EXPECT_EQ(distilled.head_flops, 3 * 2 * tokens * vocab * width);
  EXPECT_EQ(distilled.early_flops, 2 * tokens * vocab * width);
  EXPECT_NE(mode_transport_text(config, plan).find("late states travel, 4 MiB"), std::string::npos)
      << mode_transport_text(config, plan);

  config.mode.lambda = 0;
  const ModeTransport mixed = mode_transport(config, plan);
  EXPECT_EQ(mixed.state_bytes, distilled.state_bytes);
  EXPECT_EQ(mixed.mixture_bytes, 4 * tokens * (width + 3));
  EXPECT_EQ(mixed.head_flops, 2 * tokens * vocab * width);
  EXPECT_EQ(mixed.logit_bytes, 0);
  EXPECT_EQ(choose_transport(config, plan), Transport::states) << "one state is no more than a sum";
}

// Six late layers over three stages of two: four states would travel six times, a sum twice.
TEST(ModeReport, ARunningSumTravelsWhereItIsFewerBytes) {
  EnginePlan plan = plan_of_16_stages();
  plan.set_mode({.k = 6}, "");
  TrainConfig config;
  config.grid.pp = 16;
  config.batch.micro_batch = 2;
  config.mode.enabled = true;
  config.mode.spec.k = 6;
  const double tokens = 2 * 128, width = 4096;
  const auto expect = [&](const TrainConfig& asked, Transport way, const char* why) {
    EXPECT_EQ(choose_transport(asked, plan), way);
    plan.vote_transport = choose_transport(asked, plan);
    EXPECT_NE(mode_transport_text(asked, plan).find(why), std::string::npos)
        << mode_transport_text(asked, plan);
  };
  expect(config, Transport::states, "divergence needs");
  config.mode.lambda = 0;
  const ModeTransport cost = mode_transport(config, plan);
  EXPECT_EQ(cost.state_bytes, 4 * tokens * width * (2 + 2 + 1 + 1));
  EXPECT_EQ(cost.mixture_bytes, 4 * tokens * (width + 6) * 2);
  expect(config, Transport::mixture,
         "a running sum of late layers and their weights travel, 8 MiB");
  TrainConfig shrinks = config;
  shrinks.mode.shrink.below = 0.05;
  expect(shrinks, Transport::states, "may move to a later stage");
  TrainConfig frozen = config;
  frozen.model.freeze.patterns = {"*"};
  expect(frozen, Transport::states, "nothing before the last stage is trained");
}

}  // namespace
}  // namespace fathom::train
