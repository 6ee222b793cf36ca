// A run that stops after any step and goes on from its checkpoint is the run that never stopped:
// bit for bit on the same grid, to rounding on another one.

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

#include "../mpi_main.h"
#include "checkpoints/checkpoint_reader.h"
#include "checkpoints/run_folder.h"
#include "core/files.h"
#include "core/log.h"
#include "core/parameter_names.h"
#include "tests/support/expect_error.h"
#include "tests/train/small_distillation.h"
#include "train/adapter_folder.h"
#include "train/trainer.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kSteps = 10;

/// The grids of this rank count that the tests start on; each is resumed on the next.
std::vector<comm::GridShape> started_grids(int ranks) {
  if (ranks != 4) return small::grids(ranks);
  return {{.dp = 1, .pp = 2, .tp = 2}, {.dp = 2, .pp = 2, .tp = 1}};
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
  static void SetUpTestSuite() {
    logger().set_quiet(true);
    files_ = new testing::SharedDirectory(test::world(), [](const fs::path& folder) {
      small::write_models(folder);
      testing::write_tokens(folder / "tokens.h5", 100, 2, 40, small::kVocab, 3);
      testing::write_tokens(folder / "other.h5", 100, 2, 40, small::kVocab, 4);
      testing::write_tokens(folder / "eval.h5", 7, 5, 30, small::kVocab, 5);
      // As many different lengths as records: a batch's size tells which record it is.
      testing::write_tokens(folder / "distinct.h5", 24, 2, 25, small::kVocab, 6);
    });
  }
  static void TearDownTestSuite() {
    test::world().barrier();
    delete files_;
  }

  /// A folder of this test's own.
  static fs::path run_folder(const std::string& name) {
    std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(test.begin(), test.end(), '/', '_');
    return *files_ / (test + "_" + name);
  }

  /// The run that never stops, made once for each grid.
  static fs::path straight_run() {
    const fs::path run = *files_ / ("straight_" + small::name_of(GetParam()));
    const bool made = test::world().all_agree(fs::exists(run));
    if (!made) train(config(run, GetParam()));
    return run;
  }

  static TrainConfig config(const fs::path& run, const comm::GridShape& grid) {
    TrainConfig config = small::config(files_->path(), grid);
    config.run.dir = run;
    config.run.steps = kSteps;
    config.run.save_every = 1;
    config.run.keep = 0;
    config.run.eval_every = 5;
    config.data.train = *files_ / "tokens.h5";
    config.data.eval = *files_ / "eval.h5";
    config.schedule.warmup_steps = 3;
    config.log.tensorboard = false;
    config.log.progress = ProgressMode::off;
    config.run.quiet = true;
    return config;
  }
  static TrainConfig resumed(const fs::path& run, const comm::GridShape& grid = GetParam()) {
    TrainConfig config = Resuming::config(run, grid);
    config.run.resume = Resume::must;
    return config;
  }

  static void train(const TrainConfig& config) {
    const auto device = test::make_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(
        test::world(), {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp}, *device);
    Trainer trainer(*device, grid, config, make_engine_plan(config), {});
    trainer.run();
  }

  /// A copy of a run as it was when it had just saved `step`, but with the metrics of the rest.
  static fs::path stopped_at(std::int64_t step, const fs::path& run, const std::string& name) {
    const fs::path copy = run_folder(name);
    if (test::world().rank() == 0) {
      fs::copy(run, copy, fs::copy_options::recursive);
      for (const std::int64_t saved : checkpoints::committed_steps(copy))
        if (saved > step) fs::remove_all(copy / checkpoints::step_name(saved));
      checkpoints::write_latest(copy, step);
    }
    test::world().barrier();
    return copy;
  }

  inline static testing::SharedDirectory* files_ = nullptr;
};

TEST_P(Resuming, OnTheSameGridBitForBit) {
  const fs::path straight = straight_run();
  for (const int step : {1, 5}) {
    const fs::path run = stopped_at(step, straight, std::to_string(step));
    train(resumed(run));
    if (test::world().rank() == 0) {
      EXPECT_EQ(metrics(run), metrics(straight));
    }
  }
}

TEST_P(Resuming, OnAnotherGridToRounding) {
  const fs::path straight = straight_run(), run = stopped_at(4, straight, "run");
  train(resumed(run, next_grid(GetParam())));
  if (test::world().rank() != 0) return;
  const auto lines = metrics(run), expected = metrics(straight);
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
  const fs::path straight = straight_run(), run = run_folder("run");
  {
    const TrainConfig config = Resuming::config(run, GetParam());
    const auto device = test::make_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(test::world(), GetParam(), *device);
    Engine engine(*device, grid, config, make_engine_plan(config), true);
    engine.load_initial_weights();
    checkpoints::RunInfo info = checkpoints::load_manifest(straight / "step_00000001").run;
    RunState state = parse_run_state(info.state, "manifest.json");
    info.step = state.step = state.optimizer_steps = 0;
    info.state = to_json(state);
    checkpoints::CheckpointWriter writer(run, {});
    writer.begin(test::world(), info, snapshot(engine, true));
    writer.finish(test::world());
  }
  train(resumed(run));
  if (test::world().rank() != 0) return;
  EXPECT_EQ(metrics(run, "step"), metrics(straight, "step"));
}

TEST_P(Resuming, FrozenWeightsAreSavedAsTheyAreKept) {
  const auto configured = [](const fs::path& run) {
    TrainConfig config = Resuming::config(run, GetParam());
    config.teacher.path.clear();
    config.loss = {.chunk_rows = 16};
    config.adapter.spec.kind = methods::adapters::Kind::lora;
    config.adapter.spec.rank = 4;
    config.model.frozen_dtype = DType::bf16;
    return config;
  };
  const fs::path straight = run_folder("straight");
  train(configured(straight));
  const fs::path run = stopped_at(5, straight, "stopped");
  train(configured(run));
  if (test::world().rank() != 0) return;
  EXPECT_EQ(metrics(run), metrics(straight));
  const auto tensors = checkpoints::load_manifest(straight / "step_00000005").tensors;
  EXPECT_EQ(tensors.at("model.layers.3.mlp.up_proj.weight").dtype, DType::bf16);
  EXPECT_EQ(tensors.at("model.norm.weight").dtype, DType::f32);
}

TEST_P(Resuming, EveryEpochIsCompleteWhenStoppedInOne) {
  if (GetParam().dp > 1 || GetParam().tp > 1) GTEST_SKIP() << "one record a step, one axis";
  const auto configured = [](const fs::path& run) {
    TrainConfig config = Resuming::config(run, GetParam());
    config.batch = {.micro_batch = 1, .micro_batches = 1};
    config.data.train = *files_ / "distinct.h5";
    config.data.eval = "";
    config.run.eval_every = 0;
    config.run.steps = 3 * 24;
    config.run.save_every = 30;
    return config;
  };
  const fs::path straight = run_folder("straight");
  train(configured(straight));
  const fs::path run = stopped_at(30, straight, "stopped");
  train(configured(run));
  if (test::world().rank() != 0) return;
  const auto lines = metrics(run);
  ASSERT_EQ(lines.size(), 72u);
  EXPECT_EQ(lines, metrics(straight));
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int> seen;
    for (std::size_t i = 0; i < 24; ++i) seen.insert(lines[24 * epoch + i].at("tokens").get<int>());
    EXPECT_EQ(seen.size(), 24u) << "epoch " << epoch;
  }
}

TEST_P(Resuming, OtherDataIsRefusedOrStartsItsOwnOrder) {
  const fs::path run = stopped_at(5, straight_run(), "run");
  TrainConfig changed = resumed(run);
  changed.data.train = *files_ / "other.h5";
  testing::expect_error(
      ErrorKind::config, [&] { train(changed); }, "run.reset_data", "was");

  changed.run.reset_data = true;
  train(changed);
  // A later resume is in the midst of the new order, whether or not the option still stands.
  changed.run.dir = stopped_at(7, run, "again");
  train(changed);
  if (test::world().rank() != 0) return;
  EXPECT_EQ(metrics(changed.run.dir), metrics(run));
  const data::Dataset set(
      std::make_shared<const data::TokenFile>(data::TokenFile::open(changed.data.train)), 64,
      data::Overlong::refuse);
  const data::TrainBatches batches(set, {.micro_batches = 4, .micro_batch = 3}, 1);
  const auto lines = metrics(run, "step");
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(kSteps));
  for (std::size_t step = 5; step < kSteps; ++step)
    EXPECT_EQ(lines[step].at("tokens"), batches.counts(static_cast<std::int64_t>(step) - 5).tokens);
}

// The adapter of a run's last checkpoint as a folder, and as one that multiplies it by another
// factor.
void write_folders(const fs::path& run, const fs::path& folder, const fs::path& rescaled) {
  const auto self = comm::self_communicator();
  auto reader = checkpoints::CheckpointReader::open(*self, run / checkpoints::step_name(2));
  const RunState state = parse_run_state(reader.manifest().run.state, run);
  write_adapter_folder(reader, state.adapter, model::parse_config(state.model_config, run), folder);
  fs::copy(folder, rescaled);
  json config = json::parse(files::read_text(rescaled / "adapter_config.json"));
  config["lora_alpha"] = 3;
  files::write_text_atomically(rescaled / "adapter_config.json", config.dump());
}

// A folder may have moved; what it says the adapter is may not have changed.
TEST_P(Resuming, AnotherAdapterIsRefused) {
  const auto tuned = [](const std::string& name) {
    TrainConfig config = Resuming::config(run_folder(name), GetParam());
    config.run.steps = 2;
    config.schedule.warmup_steps = 0;
    return config;
  };
  TrainConfig first = tuned("first");
  first.adapter.spec.kind = methods::adapters::Kind::lora;
  train(first);
  const fs::path folder = run_folder("folder"), rescaled = run_folder("rescaled");
  if (test::world().rank() == 0) write_folders(first.run.dir, folder, rescaled);
  test::world().barrier();

  TrainConfig second = tuned("second");
  second.adapter.path = folder;
  second.run.steps = 1;
  train(second);
  second.run.steps = 2;
  second.run.resume = Resume::must;
  second.adapter.path = rescaled;
  testing::expect_error(
      ErrorKind::config, [&] { train(second); }, "step_00000001", "lora_alpha was 16, is 3");
  TrainConfig without = second;
  without.adapter.path.clear();
  testing::expect_error(
      ErrorKind::config, [&] { train(without); }, "peft_type was \"LORA\", is nothing");
  second.adapter.path = folder;
  train(second);
  if (test::world().rank() != 0) return;
  EXPECT_EQ(metrics(second.run.dir, "step").size(), 2u);
}

// Frozen matrices in bf16 are kept as such, and come back to the bit.
TEST_P(Resuming, FrozenWeightsKeepTheirType) {
  const auto tuned = [](const fs::path& run) {
    TrainConfig config = Resuming::config(run, GetParam());
    config.adapter.spec.kind = methods::adapters::Kind::lora;
    config.model.frozen_dtype = DType::bf16;
    return config;
  };
  const fs::path straight = run_folder("straight");
  train(tuned(straight));
  const fs::path run = stopped_at(4, straight, "stopped");
  train(tuned(run));
  if (test::world().rank() != 0) return;
  EXPECT_EQ(metrics(run), metrics(straight));
  const auto tensors = checkpoints::load_manifest(run / "step_00000010").tensors;
  for (const auto& [name, tensor] : tensors) {
    const bool frozen_matrix = tensor.shape.size() == 2 && !is_method_parameter(name);
    EXPECT_EQ(tensor.dtype, frozen_matrix ? DType::bf16 : DType::f32) << name;
  }
}

std::string name_of(const ::testing::TestParamInfo<comm::GridShape>& info) {
  return small::name_of(info.param);
}

INSTANTIATE_TEST_SUITE_P(Grids, Resuming,
                         ::testing::ValuesIn(started_grids(small::launched_ranks())), name_of);

}  // namespace
}  // namespace fathom::train
