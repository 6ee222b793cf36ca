// Whole runs whose late layers vote: stopped and resumed on another grid, with adapters, and with a
// k that shrinks on the way.

#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "checkpoints/run_folder.h"
#include "core/files.h"
#include "core/log.h"
#include "tests/support/expect_error.h"
#include "tests/support/run_metrics.h"
#include "tests/support/temporary_directory.h"
#include "tests/train/small_distillation.h"
#include "train/hf_weights.h"
#include "train/mode_file.h"
#include "train/trainer.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;

std::vector<nlohmann::json> steps_of(const fs::path& run) {
  return testing::metrics_of(run, "step");
}

class ModeTraining : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  static void SetUpTestSuite() {
    logger().set_quiet(true);
    files_ = new testing::SharedDirectory(test::world(), [](const fs::path& folder) {
      small::write_models(folder);
      testing::write_tokens(folder / "tokens.h5", 100, 2, 40, small::kVocab, 3);
    });
  }
  static void TearDownTestSuite() {
    test::world().barrier();
    delete files_;
  }

  static comm::GridShape other_grid() {
    const auto all = small::grids(small::launched_ranks());
    const auto here = std::find(all.begin(), all.end(), GetParam());
    return all[static_cast<std::size_t>(here - all.begin() + 1) % all.size()];
  }

  static TrainConfig config(const std::string& name, int steps, const comm::GridShape& shape) {
    TrainConfig config = small::config(files_->path(), shape);
    config.teacher.path.clear();
    config.loss = {.chunk_rows = 16};
    config.adapter.spec.kind = methods::adapters::Kind::dora;
    config.adapter.spec.rank = 4;
    config.mode = {.enabled = true, .spec = {.k = 3}, .lambda = 0.5};
    config.optim.lr = 1e-2;
    config.run.dir = *files_ / name;
    config.run.steps = steps;
    config.run.quiet = true;
    config.data.train = *files_ / "tokens.h5";
    config.schedule.kind = ScheduleKind::constant;
    config.log.tensorboard = false;
    config.log.progress = ProgressMode::off;
    return config;
  }

  // The number of late layers at the end.
  static int train(const TrainConfig& config) {
    const auto device = test::make_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(
        test::world(), {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp}, *device);
    Trainer trainer(*device, grid, config, make_engine_plan(config), {});
    trainer.run();
    return trainer.engine().plan().mode->k;
  }

  static void expect_same(const std::string& again, const std::string& straight) {
    if (test::world().rank() != 0) return;
    const auto ours = steps_of(*files_ / again), expected = steps_of(*files_ / straight);
    ASSERT_EQ(ours.size(), expected.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const double loss = expected[i].at("loss");
      EXPECT_NEAR(ours[i].at("loss"), loss, 2e-5 * loss) << i;
      EXPECT_EQ(ours[i].at("more").value("mode_k", 0.0),
                expected[i].at("more").value("mode_k", 0.0));
    }
  }

  inline static testing::SharedDirectory* files_ = nullptr;
};

// Without the divergence norms and router lie elsewhere on some grids than on others.
TEST_P(ModeTraining, ResumesOnAnotherGrid) {
  for (const double lambda : {0.5, 0.0}) {
    SCOPED_TRACE(lambda);
    const auto run = [&](const std::string& name, int steps, const comm::GridShape& shape) {
      TrainConfig c = config(name, steps, shape);
      c.mode.lambda = lambda;
      train(c);
    };
    const std::string name = small::name_of(GetParam()) + (lambda > 0 ? "" : "_no_lambda");
    run(name, 6, GetParam());
    run(name + "_again", 3, GetParam());
    run(name + "_again", 6, other_grid());
    expect_same(name + "_again", name);
  }
}

// A fresh router gives each layer but the last 0.1 / (k - 1) or less: one goes after two steps, one
// after two more, and two layers stay.
TEST_P(ModeTraining, KShrinksAndStaysSoOverAResume) {
  const auto shrinking = [](const std::string& name, int steps, const comm::GridShape& shape) {
    TrainConfig c = config(name, steps, shape);
    c.mode.spec.k = 4;
    c.mode.shrink = {.below = 0.05, .steps = 2};
    c.optim.lr = 1e-3;
    return c;
  };
  const std::string name = "shrinks_" + small::name_of(GetParam());
  EXPECT_EQ(train(shrinking(name, 6, GetParam())), 2);
  for (const int stop : {1, 3}) {  // with four layers, and with three; one step of two each
    const std::string again = name + "_again" + std::to_string(stop);
    train(shrinking(again, stop, GetParam()));
    EXPECT_EQ(train(shrinking(again, 6, other_grid())), 2);
    expect_same(again, name);
  }
  if (test::world().rank() != 0) return;
  const auto lines = steps_of(*files_ / name);
  for (const int step : {1, 2, 3, 4, 5, 6})
    EXPECT_EQ(lines.at(static_cast<std::size_t>(step - 1)).at("more").at("mode_k"), step <= 2 ? 4
                                                                                    : step <= 4
                                                                                        ? 3
                                                                                        : 2);
  if (GetParam().pp > 1) {
    for (const auto& line : lines) EXPECT_GT(line.at("more").at("stage_bytes"), 0) << line;
  }
  EXPECT_TRUE(lines.at(3).at("more").contains("mode_weight_2"));
  EXPECT_FALSE(lines.at(4).at("more").contains("mode_weight_2"));

  // What is exported is a mixture of two layers, and reads as one.
  const auto self = comm::self_communicator();
  const fs::path saved = *files_ / name / checkpoints::step_name(6);
  auto reader = checkpoints::CheckpointReader::open(*self, saved, {.verify = true});
  const auto state = parse_run_state(reader.manifest().run.state, "manifest");
  const model::ModelSpec model = model::parse_config(state.model_config, "manifest");
  const fs::path folder = *files_ / (name + "_export");
  const HfWeights weights(config(name, 6, GetParam()).model.path);
  write_mode_file(reader, state.mode, model, weights, folder);
  const auto spec = read_mode_spec(folder);
  ASSERT_TRUE(spec.has_value());
  EXPECT_EQ(spec->k, 2);
  ASSERT_NO_THROW(ModeFolder(folder, *spec, model));
  const ModeFolder votes(folder, *spec, model);
  EXPECT_TRUE(votes.names_backbone());
  EXPECT_NO_THROW(votes.check_backbone(model, weights));
  testing::expect_error(
      ErrorKind::data, [&] { votes.check_backbone(model, model::RandomWeights(1)); },
      "trained on another model");
}

// Of all tokens, before anything is learnt.
TEST_P(ModeTraining, RoutersBeginAsAsked) {
  using methods::mode::RouterInit;
  for (const RouterInit init : {RouterInit::last, RouterInit::uniform}) {
    const bool last = init == RouterInit::last;
    const std::string name = (last ? "last_" : "uniform_") + small::name_of(GetParam());
    TrainConfig c = config(name, 1, GetParam());
    c.mode.router_init = init;
    train(c);
    if (test::world().rank() != 0) continue;
    const nlohmann::json seen = steps_of(*files_ / name).at(0).at("more");
    EXPECT_NEAR(seen.at("mode_weight_2"), last ? 0.05 : 1.0 / 3, 1e-6);
    EXPECT_NEAR(seen.at("mode_weight_3"), last ? 0.05 : 1.0 / 3, 1e-6);
    EXPECT_NEAR(seen.at("mode_weight_4"), last ? 0.9 : 1.0 / 3, 1e-6);
  }
}

// A checkpoint has nothing for late layers that never voted, nor for a run in which none does.
TEST_P(ModeTraining, AnotherKDoesNotResume) {
  const std::string name = "other_k_" + small::name_of(GetParam());
  TrainConfig c = config(name, 1, GetParam());
  train(c);
  c.run.steps = 2;
  c.mode.spec.k = 4;
  testing::expect_error(
      ErrorKind::config, [&] { train(c); }, "this run began with 3 late layers, and mode.k = 4");
  c.mode.spec.k = 2;
  testing::expect_error(
      ErrorKind::config, [&] { train(c); }, "3 late layers vote here, and mode.k = 2");
  c.mode = {};
  testing::expect_error(
      ErrorKind::config, [&] { train(c); }, "late layers of this run vote");
}

INSTANTIATE_TEST_SUITE_P(AllGrids, ModeTraining,
                         ::testing::ValuesIn(small::grids(small::launched_ranks())),
                         [](const auto& grid) { return small::name_of(grid.param); });

// What another model's late layers vote with does not fit, and says why.
TEST(ModeFolderTest, RefusesAnotherModel) {
  if (test::world().rank() != 0) return;
  testing::TemporaryDirectory directory;
  model::ModelSpec model;
  model.layers = 4;
  model.hidden = 8;
  const methods::mode::ModeSpec spec{.k = 2};
  const auto write = [&](const std::vector<checkpoints::SafetensorsPlan>& plan) {
    checkpoints::write_safetensors(
        directory / "mode.safetensors", plan,
        [&](const checkpoints::SafetensorsPlan& entry, checkpoints::SafetensorsSink& sink) {
          sink.put(std::vector<float>(
              static_cast<std::size_t>(checkpoints::element_count(entry.shape))));
        });
  };
  using checkpoints::Element;
  write({{"norm.3.weight", Element::f32, {8}},
         {"norm.4.weight", Element::f32, {8}},
         {"router.bias", Element::f32, {2}},
         {"router.weight", Element::f32, {2, 8}}});
  files::write_text_atomically(directory / "mode.json", methods::mode::to_json(spec));
  EXPECT_NO_THROW(ModeFolder(directory.path(), spec, model));
  model.hidden = 16;
  testing::expect_error(
      ErrorKind::data, [&] { ModeFolder(directory.path(), spec, model); },
      "belong to another model than this one of 4 layers and width 16", "norm.3.weight is [8]");
  model.hidden = 8;
  model.layers = 6;
  testing::expect_error(
      ErrorKind::data, [&] { ModeFolder(directory.path(), spec, model); }, "lacks norm.5.weight",
      "has also norm.3.weight");
}

}  // namespace
}  // namespace fathom::train
