// A run that stops after any step and goes on from its checkpoint is the run that never stopped:
// bit for bit on the same grid, to rounding on another one.

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

#include "../mpi_main.h"
#include "checkpoints/run_folder.h"
#include "core/log.h"
#include "tests/support/expect_error.h"
#include "tests/train/small_distillation.h"
#include "train/trainer.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kSteps = 10;

/// The grids of this rank count that the tests start on; each is resumed on the next.
std::vector<comm::GridShape> started_grids(int ranks) {
  if (ranks != 4) return small::grids(ranks);
  return {{.dp = 1, .pp = 2, .tp = 2}, {.dp = 2, .pp = 2, .tp = 1}, {.dp = 1, .pp = 1, .tp = 4}};
}

comm::GridShape next_grid(const comm::GridShape& grid) {
  const auto all = started_grids(grid.ranks());
  const auto found = std::find(all.begin(), all.end(), grid);
  return all[static_cast<std::size_t>(found - all.begin() + 1) % all.size()];
}

/// metrics.jsonl without what depends on the clock; only lines of one kind if one is given.
std::vector<json> metrics(const fs::path& run, const std::string& kind = "") {
  std::ifstream file(run / "metrics.jsonl");
  std::vector<json> lines;
  for (std::string text; std::getline(file, text);) {
    json line = json::parse(text);
    if (!kind.empty() && line.at("kind") != kind) continue;
    for (const char* key : {"seconds", "tokens_per_s", "memory_bytes", "peak_share"})
      line.erase(key);
    lines.push_back(std::move(line));
  }
  return lines;
}

class Resuming : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  Resuming()
      : files_(test::world(), [](const fs::path& folder) {
          small::write_models(folder);
          testing::write_tokens(folder / "tokens.h5", 100, 2, 40, small::kVocab, 3);
          testing::write_tokens(folder / "other.h5", 100, 2, 40, small::kVocab, 4);
          testing::write_tokens(folder / "eval.h5", 7, 5, 30, small::kVocab, 5);
          // As many different lengths as records: a batch's size tells which record it is.
          testing::write_tokens(folder / "distinct.h5", 24, 2, 25, small::kVocab, 6);
        }) {
    logger().set_quiet(true);
  }
  void TearDown() override { test::world().barrier(); }

  TrainConfig config(const std::string& run, const comm::GridShape& grid) const {
    TrainConfig config = small::config(files_.path(), grid);
    config.run.dir = files_ / run;
    config.run.steps = kSteps;
    config.run.save_every = 1;
    config.run.keep = 0;
    config.run.eval_every = 5;
    config.data.train = files_ / "tokens.h5";
    config.data.eval = files_ / "eval.h5";
    config.schedule.warmup_steps = 3;
    config.log.tensorboard = false;
    config.log.progress = ProgressMode::off;
    config.run.quiet = true;
    return config;
  }
  TrainConfig resumed(TrainConfig config, const std::string& run) const {
    config.run.dir = files_ / run;
    config.run.resume = Resume::must;
    return config;
  }

  static void train(const TrainConfig& config) {
    const auto device = make_cpu_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(test::world(),
                           {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp});
    Trainer trainer(*device, grid, config, make_engine_plan(config), {});
    trainer.run();
  }

  /// A copy of a run as it was when it had just saved `step`, but with the metrics of the rest.
  void stop_at(const std::string& from, std::int64_t step, const std::string& to) const {
    if (test::world().rank() == 0) {
      fs::copy(files_ / from, files_ / to, fs::copy_options::recursive);
      for (const std::int64_t saved : checkpoints::committed_steps(files_ / to))
        if (saved > step) fs::remove_all(files_ / to / checkpoints::step_name(saved));
      checkpoints::write_latest(files_ / to, step);
    }
    test::world().barrier();
  }

  testing::SharedDirectory files_;
};

TEST_P(Resuming, OnTheSameGridBitForBit) {
  const TrainConfig straight = config("straight", GetParam());
  train(straight);
  for (const int step : {1, 5}) {
    const std::string run = "from_" + std::to_string(step);
    stop_at("straight", step, run);
    train(resumed(straight, run));
    if (test::world().rank() == 0) {
      EXPECT_EQ(metrics(files_ / run), metrics(files_ / "straight"));
    }
  }
}

TEST_P(Resuming, OnAnotherGridToRounding) {
  train(config("straight", GetParam()));
  stop_at("straight", 4, "other");
  train(resumed(config("other", next_grid(GetParam())), "other"));
  if (test::world().rank() != 0) return;
  const auto lines = metrics(files_ / "other"), expected = metrics(files_ / "straight");
  ASSERT_EQ(lines.size(), expected.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double loss = expected[i].at("loss");
    EXPECT_NEAR(lines[i].at("loss"), loss, 1e-5 * loss) << lines[i];
    for (const char* key : {"kind", "step", "tokens"})
      EXPECT_EQ(lines[i].at(key), expected[i].at(key)) << lines[i];
    EXPECT_EQ(lines[i].value("lr", 0.0), expected[i].value("lr", 0.0)) << lines[i];
  }
}

TEST_P(Resuming, FromACheckpointBeforeTheFirstStep) {
  const TrainConfig straight = config("straight", GetParam());
  train(straight);
  {
    const auto device = make_cpu_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(test::world(), GetParam());
    Engine engine(*device, grid, straight, make_engine_plan(straight), true);
    engine.load_initial_weights();
    const auto saved = checkpoints::load_manifest(files_ / "straight" / checkpoints::step_name(1));
    RunState state = parse_run_state(saved.run.state, "manifest.json");
    state.step = state.optimizer_steps = 0;
    checkpoints::CheckpointWriter writer(files_ / "zero", {});
    checkpoints::RunInfo info = saved.run;
    info.step = 0;
    info.state = to_json(state);
    writer.begin(test::world(), info, snapshot(engine, true));
    writer.finish(test::world());
  }
  train(resumed(straight, "zero"));
  if (test::world().rank() != 0) return;
  EXPECT_EQ(metrics(files_ / "zero", "step"), metrics(files_ / "straight", "step"));
}

TEST_P(Resuming, EveryEpochIsCompleteWhenStoppedInOne) {
  if (GetParam().dp > 1) GTEST_SKIP() << "one record a step";
  TrainConfig straight = config("straight", GetParam());
  straight.batch = {.micro_batch = 1, .micro_batches = 1};
  straight.data.train = files_ / "distinct.h5";
  straight.data.eval = "";
  straight.run.eval_every = 0;
  straight.run.steps = 3 * 24;
  straight.run.save_every = 30;
  train(straight);
  stop_at("straight", 30, "stopped");
  train(resumed(straight, "stopped"));
  if (test::world().rank() != 0) return;
  const auto lines = metrics(files_ / "stopped");
  ASSERT_EQ(lines.size(), 72u);
  EXPECT_EQ(lines, metrics(files_ / "straight"));
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int> seen;
    for (std::size_t i = 0; i < 24; ++i) seen.insert(lines[24 * epoch + i].at("tokens").get<int>());
    EXPECT_EQ(seen.size(), 24u) << "epoch " << epoch;
  }
}

TEST_P(Resuming, OtherDataIsRefusedOrStartsItsOwnOrder) {
  train(config("straight", GetParam()));
  stop_at("straight", 5, "other");
  TrainConfig changed = resumed(config("other", GetParam()), "other");
  changed.data.train = files_ / "other.h5";
  testing::expect_error(
      ErrorKind::config, [&] { train(changed); }, "reset_data", "was");

  changed.run.reset_data = true;
  train(changed);
  // A later resume is in the midst of the new data's order, whether or not the option still stands.
  stop_at("other", 7, "again");
  train(resumed(changed, "again"));
  if (test::world().rank() != 0) return;
  EXPECT_EQ(metrics(files_ / "again"), metrics(files_ / "other"));
  const data::Dataset set(
      std::make_shared<const data::TokenFile>(data::TokenFile::open(changed.data.train)), 64,
      data::Overlong::refuse);
  const data::TrainBatches batches(set, {.micro_batches = 4, .micro_batch = 3}, 1);
  const auto lines = metrics(files_ / "other", "step");
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(kSteps));
  for (std::size_t step = 5; step < kSteps; ++step)
    EXPECT_EQ(lines[step].at("tokens"), batches.counts(static_cast<std::int64_t>(step) - 5).tokens);
}

std::string name_of(const ::testing::TestParamInfo<comm::GridShape>& info) {
  return small::name_of(info.param);
}

INSTANTIATE_TEST_SUITE_P(Grids, Resuming,
                         ::testing::ValuesIn(started_grids(small::launched_ranks())), name_of);

}  // namespace
}  // namespace fathom::train
