// A run that moves through ten grids in a row, saving and resuming between them: at every hand-over
// parameters and moments come back bit for bit, on every replica, and at the end its losses are
// those of a run on one rank that nobody interrupted.

#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../mpi_main.h"
#include "core/log.h"
#include "tests/train/small_distillation.h"
#include "train/collect.h"
#include "train/trainer.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kStepsOnAGrid = 2;

/// Each unlike the one before it in at least one axis; three stages of four layers are uneven, and
/// four tensor ranks share two key-value heads.
const std::vector<comm::GridShape>& visited() {
  static const std::vector<comm::GridShape> grids = {
      {.dp = 1, .pp = 2, .tp = 2}, {.dp = 4, .pp = 1, .tp = 1}, {.dp = 1, .pp = 1, .tp = 1},
      {.dp = 1, .pp = 4, .tp = 1}, {.dp = 2, .pp = 1, .tp = 2}, {.dp = 3, .pp = 1, .tp = 1},
      {.dp = 1, .pp = 1, .tp = 4}, {.dp = 2, .pp = 2, .tp = 1}, {.dp = 1, .pp = 3, .tp = 1},
      {.dp = 1, .pp = 1, .tp = 2}, {.dp = 2, .pp = 1, .tp = 1}};
  return grids;
}

const int kSteps = kStepsOnAGrid * static_cast<int>(visited().size());

using Tensors = std::map<std::string, std::vector<float>>;

/// The parameters of one replica and their moments, whole, on the grid's rank 0.
Tensors tensors_of(Engine& engine, int replica) {
  std::vector<Fragment> fragments;
  if (engine.grid().place().dp == replica)
    for (const model::Parameter& parameter : engine.student().parameters().parameters()) {
      append_fragments(parameter, parameter.value, parameter.name, fragments);
      if (!parameter.trainable()) continue;
      Optimizer& optimizer = engine.optimizer();
      append_fragments(parameter, optimizer.first_moment(parameter), parameter.name + "#first",
                       fragments);
      append_fragments(parameter, optimizer.second_moment(parameter), parameter.name + "#second",
                       fragments);
    }
  Tensors tensors;
  for (auto& [name, whole] : collect(engine.grid().world(), fragments))
    tensors[name] = std::move(whole.values);
  return tensors;
}

/// The first tensor that differs in a bit, or "".
std::string first_difference(const Tensors& found, const Tensors& expected) {
  if (found.size() != expected.size()) return str(found.size(), " tensors, not ", expected.size());
  for (const auto& [name, values] : expected) {
    const auto at = found.find(name);
    if (at == found.end()) return name + " is missing";
    if (at->second.size() != values.size() ||
        std::memcmp(at->second.data(), values.data(), values.size() * sizeof(float)) != 0)
      return name;
  }
  return "";
}

struct Variant {
  const char* name;
  void (*change)(TrainConfig&);
};

class Elastic : public ::testing::TestWithParam<Variant> {
 protected:
  static void SetUpTestSuite() {
    logger().set_quiet(true);
    files_ = new testing::SharedDirectory(test::world(), [](const fs::path& folder) {
      small::write_models(folder);
      testing::write_tokens(folder / "tokens.h5", 100, 2, 40, small::kVocab, 3);
      testing::write_tokens(folder / "eval.h5", 7, 5, 30, small::kVocab, 5);
      // Two answers to each prompt; for this they may be alike.
      fs::create_directory(folder / "pairs");
      for (const char* name : {"chosen.h5", "rejected.h5"})
        fs::copy_file(folder / "tokens.h5", folder / "pairs" / name);
    });
  }
  static void TearDownTestSuite() {
    test::world().barrier();
    delete files_;
  }

  static TrainConfig config(const fs::path& run, const comm::GridShape& grid, int steps) {
    TrainConfig config = small::config(files_->path(), grid);
    config.run.dir = run;
    config.run.steps = steps;
    config.run.eval_every = kStepsOnAGrid;
    config.run.quiet = true;
    config.data.train = *files_ / "tokens.h5";
    config.data.eval = *files_ / "eval.h5";
    config.schedule.kind = ScheduleKind::constant;
    config.schedule.warmup_steps = 3;
    config.log.tensorboard = false;
    config.log.progress = ProgressMode::off;
    GetParam().change(config);
    return config;
  }

  /// Goes on to `steps` on a grid over `world`. Compares what it starts with to `held`, unless that
  /// is empty, and leaves there what it ends with.
  static void train(comm::Communicator& world, const comm::GridShape& shape, const fs::path& run,
                    int steps, Tensors& held) {
    const TrainConfig config = Elastic::config(run, shape, steps);
    const auto device = test::make_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(world, shape, *device);
    Trainer trainer(*device, grid, config, make_engine_plan(config), {});
    for (int replica = 0; replica < shape.dp && steps > kStepsOnAGrid; ++replica) {
      const Tensors found = tensors_of(trainer.engine(), replica);
      if (world.rank() != 0 || held.empty()) continue;
      EXPECT_EQ(first_difference(found, held), "")
          << "replica " << replica << " of " << comm::to_string(shape);
    }
    trainer.run();
    held = tensors_of(trainer.engine(), 0);
  }

  /// Loss of each step, and of each evaluation.
  static std::vector<double> losses(const fs::path& run) {
    std::ifstream file(run / "metrics.jsonl");
    std::vector<double> all;
    for (std::string line; std::getline(file, line);) all.push_back(json::parse(line).at("loss"));
    return all;
  }

  inline static testing::SharedDirectory* files_ = nullptr;
};

TEST_P(Elastic, TenHandOversBetweenUnlikeGrids) {
  comm::Communicator& world = test::world();
  const fs::path moved = *files_ / (std::string("moved_") + GetParam().name),
                 straight = *files_ / (std::string("straight_") + GetParam().name);
  Tensors held;
  int steps = 0;
  for (const comm::GridShape& grid : visited()) {
    steps += kStepsOnAGrid;
    const auto group = world.split(world.rank() < grid.ranks() ? 0 : -1, world.rank());
    if (group) train(*group, grid, moved, steps, held);
    world.barrier();
  }
  if (world.rank() == 0) {
    const auto self = comm::self_communicator();
    Tensors unused;
    train(*self, {}, straight, kSteps, unused);
    const auto found = losses(moved), expected = losses(straight);
    ASSERT_EQ(found.size(), expected.size());
    ASSERT_EQ(found.size(), static_cast<std::size_t>(kSteps + 1 + kSteps / kStepsOnAGrid));
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, std::abs(found[i] - expected[i]));
    EXPECT_LT(worst, 1e-3);
    RecordProperty("largest_difference_of_a_loss", std::to_string(worst));
  }
  world.barrier();
}

void plain(TrainConfig&) {}

void without_teacher(TrainConfig& config) {
  config.teacher.path.clear();
  config.loss = {.chunk_rows = 16};
}

/// A bank of controls and its gates, layers that vote and their router.
void controls_that_vote(TrainConfig& config) {
  without_teacher(config);
  config.moc = {.enabled = true, .rank = 4, .alpha = 0.6, .top_k = 2, .balance = 0.5};
  config.mode = {.enabled = true, .spec = {.k = 3}, .lambda = 0.1};
}

void adapters_that_vote(TrainConfig& config) {
  without_teacher(config);
  config.adapter.spec.kind = methods::adapters::Kind::dora;
  config.adapter.spec.rank = 4;
  config.mode = {.enabled = true, .spec = {.k = 2, .top_k = 1}, .lambda = 0.1};
}

/// On own answers, with a threshold that rises and a buffer that fills and is drawn from.
void replay(TrainConfig& config) {
  config.distill.method = DistillMethod::adaptive;
  config.distill.init_threshold = 0.5;
  config.distill.epsilon = 0;
  config.distill.replay = ReplaySchedule::constant;
  config.distill.capacity = 12;
  config.distill.max_new = 12;
}

/// With a curriculum, which compares with the gaps of its first step.
void pairs(TrainConfig& config) {
  config.distill.method = DistillMethod::contrastive;
  config.distill.pairs = fs::path(config.data.train).parent_path() / "pairs";
  config.distill.curriculum = true;
  config.data.train.clear();
  config.loss = {.ce_weight = 0, .kd_weight = 1, .chunk_rows = 16};
}

INSTANTIATE_TEST_SUITE_P(Methods, Elastic,
                         ::testing::Values(Variant{"distillation", plain},
                                           Variant{"controls_that_vote", controls_that_vote},
                                           Variant{"adapters_that_vote", adapters_that_vote},
                                           Variant{"replay", replay}, Variant{"pairs", pairs}),
                         [](const auto& variant) { return std::string(variant.param.name); });

}  // namespace
}  // namespace fathom::train
