// Where the layers of a recipe's models lie, and what the stages then have to do.

#include "train/token_costs.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"
#include "train/footprint.h"
#include "train/state_losses.h"

namespace fathom::train {
namespace {

const std::string kModels = std::string(FATHOM_SOURCE_DIR) + "/configs/models/";

/// configs/mta-gpt2.ini and mta-opt.ini, as far as they place layers.
TrainConfig recipe(const std::string& student, const std::string& teacher, int pp,
                   std::vector<int> student_layers, std::vector<int> teacher_layers) {
  TrainConfig config;
  config.model.path = kModels + student;
  config.teacher = {.path = kModels + teacher, .dtype = DType::bf16};
  config.data.train = "not/there/yet.h5";
  config.data.context = 256;
  config.grid.pp = pp;
  config.mta.enabled = true;
  config.mta.student_layers = std::move(student_layers);
  config.mta.teacher_layers = std::move(teacher_layers);
  return config;
}

double slowest_over_mean(const TrainConfig& config, const EnginePlan& plan) {
  double slowest = 0, sum = 0;
  for (int stage = 0; stage < config.grid.pp; ++stage) {
    const pipeline::StageCost cost = stage_cost(config, plan, stage, 512);
    const double work = cost.forward_s + cost.backward_s;
    slowest = std::max(slowest, work);
    sum += work;
  }
  return slowest * config.grid.pp / sum;
}

void expect_balanced(const TrainConfig& config, double most) {
  const EnginePlan plan = make_engine_plan(config);
  const StateRoutes routes(plan.student_layers, &*plan.teacher_layers, state_sites(plan));
  EXPECT_TRUE(routes.routes().empty()) << "a key state leaves its stage";
  EXPECT_LT(slowest_over_mean(config, plan), most)
      << to_string(plan.student_layers) << ", teacher " << to_string(*plan.teacher_layers);
}

// To the grain of a layer, and of the key layers that stay together.
TEST(Placement, RecipesAreBalancedAndTheirKeyStatesStay) {
  expect_balanced(recipe("gpt2", "gpt2-xl", 2, {6, 9, 12}, {24, 36, 48}), 1.03);
  expect_balanced(recipe("opt-1.3b", "opt-6.7b", 4, {16, 18, 20, 22, 24}, {20, 23, 26, 29, 32}),
                  1.1);
}

TEST(Placement, HeadsCountAtTheShareOfLabels) {
  const testing::TemporaryDirectory folder;
  TrainConfig config = recipe("gpt2", "gpt2-xl", 2, {6, 9, 12}, {24, 36, 48});
  EXPECT_EQ(label_share(config), 0.5);
  config.data.train = "";
  EXPECT_EQ(label_share(config), 1);
  config.data.train = (folder.path() / "tokens.h5").string();
  data::TokenFileInfo info;
  info.vocab_size = 50;
  info.template_name = info.template_text = "plain";
  info.tokenizer = "0000000000000000";
  data::TokenFileWriter writer(config.data.train, info);
  writer.append(std::vector<std::int32_t>{1, 2, 3, 4, 5}, 3);  // 2 of 4 positions
  writer.append(std::vector<std::int32_t>{1, 2, 3}, 0);        // 2 of 2
  writer.finish("test");
  EXPECT_DOUBLE_EQ(label_share(config), 4.0 / 6);
  const EnginePlan plan = make_engine_plan(config);
  EXPECT_DOUBLE_EQ(plan.label_share, 4.0 / 6);
  EXPECT_DOUBLE_EQ(token_costs(config, plan).student_head,
                   4.0 / 6 * static_cast<double>(plan.student.vocab * plan.student.embed_dim));
}

// A frozen model's backward pass is half of a trained one's; blocks that are made again take time,
// and stay where they were.
TEST(Placement, BackwardPassesFollowWhatIsTrained) {
  TrainConfig config = recipe("gpt2", "gpt2-xl", 2, {6, 9, 12}, {24, 36, 48});
  const EnginePlan kept = make_engine_plan(config);
  EXPECT_EQ(token_costs(config, kept).backward, std::vector<double>(12, 2));
  const double backward = stage_cost(config, kept, 0, 64).backward_s;
  config.memory.recompute = Recompute::block;
  const EnginePlan again = make_engine_plan(config);
  EXPECT_DOUBLE_EQ(stage_cost(config, again, 0, 64).backward_s, 1.5 * backward);
  EXPECT_EQ(again.student_layers, kept.student_layers);
  EXPECT_EQ(again.teacher_layers, kept.teacher_layers);
  config.adapter.spec.kind = methods::adapters::Kind::lora;
  EXPECT_EQ(token_costs(config, make_engine_plan(config)).backward, std::vector<double>(12, 1));
  EXPECT_EQ(token_costs(config, make_engine_plan(config)).head_backward, 1);
}

// Layers in front of all that is trained have no backward pass, whether an adapter leaves them out
// or the model is frozen up to there; matrices that are frozen among others count by their
// elements.
TEST(Placement, WhatIsFrozenCostsLess) {
  TrainConfig config = recipe("gpt2", "gpt2-xl", 2, {6, 9, 12}, {24, 36, 48});
  const auto backward = [&] { return token_costs(config, make_engine_plan(config)).backward; };
  config.model.freeze = {{"transformer.wte*", "transformer.wpe*", "transformer.h.[0-3].*"}};
  std::vector<double> expected(12, 2);
  std::fill_n(expected.begin(), 4, 0.0);
  EXPECT_EQ(backward(), expected);
  config.model.freeze = {{"transformer.h.11.mlp*"}};  // 8 of the layer's 12 squares of the width
  expected.assign(12, 2);
  expected.back() = 1 + 4.0 / 12;
  EXPECT_EQ(backward(), expected);
  config.model.freeze = {};
  config.adapter.spec.kind = methods::adapters::Kind::lora;
  config.adapter.spec.layers = {8, 9, 10, 11};
  expected.assign(12, 1);
  std::fill_n(expected.begin(), 8, 0.0);
  EXPECT_EQ(backward(), expected);
}

}  // namespace
}  // namespace fathom::train
