// Whole runs of a student on its own answers: the same on every grid, and the same again when they
// are stopped and go on, with the threshold and the replay buffer that they had.

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../mpi_main.h"
#include "checkpoints/run_folder.h"
#include "core/log.h"
#include "tests/train/small_distillation.h"
#include "train/trainer.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kSteps = 9;

/// metrics.jsonl without what depends on the clock or on the grid.
std::vector<json> metrics(const fs::path& run) {
  std::ifstream file(run / "metrics.jsonl");
  std::vector<json> lines;
  for (std::string text; std::getline(file, text);) {
    json line = json::parse(text);
    for (const char* key : {"seconds", "tokens_per_s", "memory_bytes", "peak_share"})
      line.erase(key);
    if (line.contains("more"))
      for (const char* key : {"generation_seconds", "stage_bytes"}) line["more"].erase(key);
    lines.push_back(std::move(line));
  }
  return lines;
}

void train(comm::Communicator& world, const TrainConfig& config) {
  const auto device = test::make_device(std::size_t{1} << 28);
  comm::ProcessGrid grid(world, {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp},
                         *device);
  Trainer trainer(*device, grid, config, make_engine_plan(config), {});
  trainer.run();
}

MethodState saved_state(const fs::path& run) {
  const auto self = comm::self_communicator();
  auto reader = checkpoints::CheckpointReader::open_latest(*self, run, {.verify = true});
  const RunState state = parse_run_state(reader->manifest().run.state, run.string());
  return read_method_state(*reader, state.method);
}

class OnPolicyTraining : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  static void SetUpTestSuite() {
    logger().set_quiet(true);
    files_ = new testing::SharedDirectory(test::world(), [](const fs::path& folder) {
      small::write_models(folder);
      testing::write_tokens(folder / "tokens.h5", 100, 2, 40, small::kVocab, 3);
      testing::write_tokens(folder / "eval.h5", 7, 5, 30, small::kVocab, 5);
      testing::write_tokens(folder / "corpus.h5", 31, 4, 40, small::kVocab, 6);
    });
  }
  static void TearDownTestSuite() {
    test::world().barrier();
    delete files_;
  }

  static fs::path folder(const std::string& name) {
    return *files_ / (name + "_" + small::name_of(GetParam()));
  }

  static TrainConfig config(DistillMethod method, const fs::path& run,
                            const comm::GridShape& grid) {
    TrainConfig config = small::config(files_->path(), grid);
    config.run.dir = run;
    config.run.steps = kSteps;
    config.run.eval_every = 2;
    config.run.save_every = 4;
    config.run.keep = 0;
    config.data.train = *files_ / "tokens.h5";
    config.data.eval = *files_ / "eval.h5";
    config.data.corpus = *files_ / "corpus.h5";
    config.loss.corpus_weight = 0.2;
    config.distill.method = method;
    config.distill.max_new = 12;
    if (method == DistillMethod::adaptive) {
      config.distill.init_threshold = 0.5;
      config.distill.epsilon = 0;
      config.distill.capacity = 12;
    }
    config.log.tensorboard = false;
    config.log.progress = ProgressMode::off;
    config.run.quiet = true;
    return config;
  }

  inline static testing::SharedDirectory* files_ = nullptr;
};

void expect_same_to_rounding(const std::vector<json>& actual, const std::vector<json>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double loss = expected[i].at("loss");
    EXPECT_NEAR(actual[i].at("loss"), loss, 1e-5 * loss) << actual[i];
    for (const char* key : {"kind", "step", "tokens"})
      EXPECT_EQ(actual[i].at(key), expected[i].at(key)) << actual[i];
    // What was generated, replayed and left out is the same to the token.
    EXPECT_EQ(actual[i].value("more", json()), expected[i].value("more", json()));
  }
}

TEST_P(OnPolicyTraining, IsThatOfOneRank) {
  for (const DistillMethod method : {DistillMethod::mixed, DistillMethod::adaptive}) {
    const std::string name = method == DistillMethod::mixed ? "mixed" : "adaptive";
    const fs::path spread = folder(name), alone = folder(name + "_alone");
    train(test::world(), config(method, spread, GetParam()));
    if (test::world().rank() != 0) continue;
    const auto self = comm::self_communicator();
    train(*self, config(method, alone, {}));
    const auto lines = metrics(alone);
    expect_same_to_rounding(metrics(spread), lines);
    EXPECT_EQ(saved_state(spread).arrays, saved_state(alone).arrays);
    double own = 0;
    for (const json& line : lines)
      if (line.contains("more")) own += line["more"].at("on_policy").get<double>();
    EXPECT_GT(own, 0);
    EXPECT_LT(own, kSteps);
    if (method == DistillMethod::mixed) continue;
    const json &first = lines[1].at("more"), &last = lines[lines.size() - 2].at("more");
    EXPECT_EQ(first.at("phi"), 0.5);
    EXPECT_GT(last.at("phi"), 0.5) << "the held-out loss of random text rises";
    EXPECT_EQ(last.at("replay_buffer"), 12);
  }
  test::world().barrier();
}

// The run that was stopped after step 4, on the grid that it had and on one rank.
TEST_P(OnPolicyTraining, GoesOnAsIfItHadNotStopped) {
  const fs::path straight = folder("straight"), same = folder("same"), other = folder("other");
  train(test::world(), config(DistillMethod::adaptive, straight, GetParam()));
  if (test::world().rank() == 0)
    for (const fs::path& copy : {same, other}) {
      fs::copy(straight, copy, fs::copy_options::recursive);
      for (const std::int64_t step : {8, 9}) fs::remove_all(copy / checkpoints::step_name(step));
      checkpoints::write_latest(copy, 4);
    }
  test::world().barrier();
  TrainConfig again = config(DistillMethod::adaptive, same, GetParam());
  again.run.resume = Resume::must;
  train(test::world(), again);
  if (test::world().rank() == 0) {
    TrainConfig alone = config(DistillMethod::adaptive, other, {});
    alone.run.resume = Resume::must;
    const auto self = comm::self_communicator();
    train(*self, alone);
    EXPECT_EQ(metrics(same), metrics(straight));
    EXPECT_EQ(saved_state(same), saved_state(straight));
    expect_same_to_rounding(metrics(other), metrics(straight));
    EXPECT_EQ(saved_state(other).arrays, saved_state(straight).arrays);
    EXPECT_FALSE(saved_state(straight).arrays.empty());
  }
  test::world().barrier();
}

std::string name_of(const ::testing::TestParamInfo<comm::GridShape>& info) {
  return small::name_of(info.param);
}

std::vector<comm::GridShape> trained_grids(int ranks) {
  if (ranks != 4) return small::grids(ranks);
  return {{.dp = 1, .pp = 2, .tp = 2}, {.dp = 2, .pp = 2, .tp = 1}};
}

INSTANTIATE_TEST_SUITE_P(Grids, OnPolicyTraining,
                         ::testing::ValuesIn(trained_grids(small::launched_ranks())), name_of);

}  // namespace
}  // namespace fathom::train
