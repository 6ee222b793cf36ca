// Whole runs with mixture of control: stopped and resumed on another grid, they lose what the run
// on the first grid loses; usage is in the metrics.

#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "core/log.h"
#include "tests/support/expect_error.h"
#include "tests/support/run_metrics.h"
#include "tests/train/small_distillation.h"
#include "train/trainer.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;

std::vector<nlohmann::json> steps_of(const fs::path& run) {
  return testing::metrics_of(run, "step");
}

class MocTraining : public ::testing::TestWithParam<comm::GridShape> {
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

  static void train(const std::string& name, int steps, const comm::GridShape& shape) {
    TrainConfig config = small::config(files_->path(), shape);
    config.teacher.path.clear();
    config.loss = {.chunk_rows = 16};
    config.moc = {.enabled = true, .rank = 4, .alpha = 0.6, .top_k = 2, .balance = 0.5};
    config.optim.lr = 3e-2;
    config.run.dir = *files_ / name;
    config.run.steps = steps;
    config.run.quiet = true;
    config.data.train = *files_ / "tokens.h5";
    config.schedule.kind = ScheduleKind::constant;
    config.log.tensorboard = false;
    config.log.progress = ProgressMode::off;
    const auto device = test::make_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(test::world(), shape, *device);
    Trainer trainer(*device, grid, config, make_engine_plan(config), {});
    trainer.run();
  }

  inline static testing::SharedDirectory* files_ = nullptr;
};

TEST_P(MocTraining, ResumesOnAnotherGrid) {
  const auto all = small::grids(small::launched_ranks());
  const auto here = std::find(all.begin(), all.end(), GetParam());
  const comm::GridShape other = all[static_cast<std::size_t>(here - all.begin() + 1) % all.size()];
  const std::string name = small::name_of(GetParam());
  train(name, 6, GetParam());
  train(name + "_again", 3, GetParam());
  train(name + "_again", 6, other);
  if (test::world().rank() != 0) return;
  const auto straight = steps_of(*files_ / name), again = steps_of(*files_ / (name + "_again"));
  ASSERT_EQ(straight.size(), 6u);
  ASSERT_EQ(again.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    const double loss = straight[i].at("loss");
    EXPECT_NEAR(again[i].at("loss"), loss, 2e-5 * loss) << i;
    EXPECT_EQ(again[i].at("more").at("moc_largest_share"),
              straight[i].at("more").at("moc_largest_share"))
        << i;
  }
}

INSTANTIATE_TEST_SUITE_P(AllGrids, MocTraining,
                         ::testing::ValuesIn(small::grids(small::launched_ranks())),
                         [](const auto& grid) { return small::name_of(grid.param); });

TEST(MocPlan, RefusesMoreExpertsThanLayers) {
  TrainConfig config;
  config.model.path = std::string(FATHOM_TEST_DATA) + "/golden/models/llama";
  config.moc = {.enabled = true, .rank = 4, .top_k = 5};
  testing::expect_error(
      ErrorKind::config, [&] { make_engine_plan(config); }, "moc.top_k = 5", "4 layers");
  config.moc = {.enabled = true, .rank = 65};
  testing::expect_error(
      ErrorKind::config, [&] { make_engine_plan(config); }, "moc.rank = 65", "64");
}

TEST(MocPlan, IsNotStackedOnAnAdapter) {
  TrainConfig config;
  config.model.path = "model";
  config.moc.enabled = true;
  config.adapter.spec.kind = methods::adapters::Kind::lora;
  const auto broken = engine_violations(config);
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken[0].keys.front(), "moc.enabled");
}

}  // namespace
}  // namespace fathom::train
