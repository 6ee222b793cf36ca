// What each late layer says by itself: against the golden cases' losses and divergences, on every
// grid of this rank count; and the rule that recommends how many layers vote.

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../mpi_main.h"
#include "diagnose/depth/collector.h"
#include "diagnose/depth/report.h"
#include "tests/support/golden.h"
#include "tests/train/mode_golden.h"
#include "tests/train/small_distillation.h"
#include "train/probe.h"

namespace fathom::diagnose::depth {
namespace {

using train::TrainConfig;
namespace golden = train::mode_golden;
namespace small = train::small;

struct Case {
  std::string name;
  comm::GridShape grid;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"mode-llama-k3", "mode-llama-k3-top2", "mode-gpt2-k3"})
    for (const comm::GridShape& grid : small::grids(small::launched_ranks()))
      all.push_back({name, grid});
  return all;
}

DepthSums look(comm::Communicator& world, const std::string& name, const comm::GridShape& shape) {
  const std::string folder = test::golden("methods/" + name);
  const auto expected = nlohmann::json::parse(std::ifstream(folder + "/expected.json"));
  const TrainConfig config = golden::config(expected.at("options"), shape);
  const auto device = test::make_device(std::size_t{1} << 28);
  comm::ProcessGrid grid(world, shape, *device);
  train::Engine engine(*device, grid, config, train::make_engine_plan(config), false);
  golden::load(engine, config, folder);
  const auto batch = train::read_padded_batch(config.model.path + "/inputs.safetensors");
  const std::int64_t first = engine.student().spec().layers - config.mode.spec.k + 1;
  DepthCollector collector(engine.student(), first, static_cast<std::size_t>(config.mode.spec.k));
  engine.work().vote_tap = [&](int slot, const methods::mode::Votes& votes, const Tensor& labels) {
    collector.add(engine.work().batches()[static_cast<std::size_t>(slot)], votes, labels);
  };
  engine.evaluate(train::rows_of_rank(batch, grid, engine.student().spec().vocab));
  DepthSums sums = collector.sums();
  sums.reduce(grid);
  return sums;
}

class DepthGolden : public ::testing::TestWithParam<Case> {};

TEST_P(DepthGolden, LossesAreThoseOfPyTorchAndTheGridDoesNotMatter) {
  const auto& [name, grid] = GetParam();
  const DepthSums sums = look(test::world(), name, grid);
  const auto expected =
      nlohmann::json::parse(std::ifstream(test::golden("methods/" + name + "/expected.json")));
  const double task = expected.at("terms").at("task"), distill = expected.at("terms").at("distill");
  EXPECT_NEAR(sums.mixture.loss / sums.tokens, task, 2e-5 * task);
  double divergences = 0;
  for (std::size_t j = 0; j + 1 < sums.k(); ++j) divergences += sums.layers[j].divergence;
  if (expected.at("options").at("temperature") == 1.0) {  // that of the golden term
    EXPECT_NEAR(divergences / static_cast<double>(sums.k() - 1) / sums.tokens, distill,
                2e-5 * distill);
  }
  EXPECT_EQ(sums.layers.back().agrees, sums.tokens);
  EXPECT_NEAR(sums.layers.back().divergence, 0, 1e-5 * sums.tokens);

  const auto self = comm::self_communicator();
  const DepthSums one = look(*self, name, {});
  EXPECT_EQ(sums.tokens, one.tokens);
  EXPECT_EQ(sums.examples, one.examples);
  EXPECT_EQ(sums.both_correct, one.both_correct);
  EXPECT_EQ(sums.both_solved, one.both_solved);
  EXPECT_EQ(sums.solved, one.solved);
  ASSERT_EQ(static_cast<double>(sums.solved.size()), sums.examples);
  std::vector<double> solved(sums.k() + 1);  // by layer, then the mixture
  for (std::size_t i = 0; i < sums.solved.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(sums.solved[i - 1].record, sums.solved[i].record);
    }
    for (std::size_t j = 0; j < solved.size(); ++j) solved[j] += sums.solved[i].by.at(j) == '1';
  }
  EXPECT_EQ(solved.back(), sums.mixture.solved);
  EXPECT_NEAR(sums.entropy, one.entropy, 1e-5 * one.entropy);
  for (std::size_t j = 0; j < sums.k(); ++j) {
    const LayerSums &here = sums.layers[j], &there = one.layers[j];
    EXPECT_NEAR(here.loss, there.loss, 1e-5 * there.loss);
    EXPECT_NEAR(here.weight, there.weight, 1e-4 * (1 + there.weight));
    EXPECT_EQ(here.correct, there.correct);
    EXPECT_EQ(here.agrees, there.agrees);
    EXPECT_EQ(here.adds, there.adds);
    EXPECT_EQ(here.largest, there.largest);
    EXPECT_EQ(here.correct, sums.both_correct[j * sums.k() + j]);
    EXPECT_EQ(here.solved, sums.both_solved[j * sums.k() + j]);
    EXPECT_EQ(here.solved, solved[j]);
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& tried) {
  std::string name = tried.param.name + "_" + small::name_of(tried.param.grid);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Golden, DepthGolden, ::testing::ValuesIn(cases()), name_of);

// Four layers of 1000 tokens, of which the upper two are worth a vote.
DepthSums four_layers() {
  DepthSums sums(7, 4);
  sums.tokens = 1000;
  for (LayerSums& layer : sums.layers) layer = {.agrees = 800, .adds = 20, .weight = 100};
  sums.layers[1].adds = 4;
  sums.layers[3].adds = 600;
  return sums;
}

TEST(DepthRule, TakesLayersFromTheLastDownWithoutAGap) {
  const Recommendation found = recommend(four_layers(), {}, true);
  EXPECT_EQ(found.k, 2);
  EXPECT_EQ(found.reason,
            "layer 8 puts right what no later layer does on 0.4 % of the tokens, less than 0.5 %");
  EXPECT_EQ(recommend(four_layers(), {.gain = 0.004}, true).k, 4);
  EXPECT_EQ(recommend(four_layers(), {.agreement = 0.9}, true).k, 1);
}

TEST(DepthRule, ARoutersWeightsCountWhereTheyWereTrained) {
  DepthSums sums = four_layers();
  sums.layers[2].weight = 9;
  EXPECT_EQ(recommend(sums, {}, true).k, 1);
  EXPECT_EQ(recommend(sums, {}, false).k, 2);
}

TEST(DepthReport, HasARowForEachLayerAndTheMixture) {
  DepthSums sums = four_layers();
  sums.solved = {{3, "01011"}, {8, "00001"}};
  const Report report = report_of(sums, {}, true);
  EXPECT_EQ(report.exit_code(), 0);
  ASSERT_EQ(report.tables.size(), 4u);
  EXPECT_EQ(report.tables[0].rows.size(), 5u);
  EXPECT_EQ(report.tables[1].columns,
            (std::vector<std::string>{"layer", "layer_7", "layer_8", "layer_9", "layer_10"}));
  EXPECT_EQ(csv_text(report.tables[3]),
            "record,layer_7,layer_8,layer_9,layer_10,mixture\r\n3,0,1,0,1,1\r\n8,0,0,0,0,1\r\n");
}

}  // namespace
}  // namespace fathom::diagnose::depth
