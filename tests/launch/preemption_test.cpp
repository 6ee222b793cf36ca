// A training run that is told to stop saves and exits with its own code, wherever it is, and the
// run that goes on from there is the one that was never stopped.

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "checkpoints/run_folder.h"
#include "core/stop_signal.h"
#include "tests/launch/program.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// metrics.jsonl without what depends on the clock.
std::vector<json> metrics(const fs::path& run) {
  std::ifstream file(run / "metrics.jsonl");
  std::vector<json> lines;
  for (std::string text; std::getline(file, text);) {
    json line = json::parse(text);
    for (const char* key : {"seconds", "tokens_per_s", "memory_bytes", "peak_share"})
      line.erase(key);
    if (line.contains("more")) line["more"].erase("generation_seconds");
    lines.push_back(std::move(line));
  }
  return lines;
}

class Preemption : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::TemporaryDirectory();
    testing::write_model(*files_ / "model", {}, 7);
    testing::write_tokens(*files_ / "tokens.h5", 80, 2, 40, 503, 3);
    testing::write_tokens(*files_ / "eval.h5", 300, 20, 40, 503, 5);
  }
  static void TearDownTestSuite() { delete files_; }

  /// Runs a script in the folder of the files; `start RUN OPTIONS...` in it is the training run.
  static Outcome script(const std::string& text) {
    return shell("cd " + files_->path().string() +
                 "\nstart() { $LAUNCH $FATHOM train --run.steps=40 --run.eval_every=10 "
                 "--model.path=model --data.train=tokens.h5 --data.eval=eval.h5 "
                 "--batch.micro_batch=2 --batch.micro_batches=4 --run.save_every=15 "
                 "--log.tensorboard=false --dropout.residual=0.1 $GRID --run.dir=\"$@\"; }\n" +
                 text);
  }
  /// The first line of a script: how many ranks `start` runs on.
  static std::string on(int ranks) {
    return "export LAUNCH=\"${MPIRUN/-np 2/-np " + std::to_string(ranks) +
           "}\" GRID='--grid.pp=2 --grid.dp=" + std::to_string(ranks / 2) + "'\n";
  }
  static std::string straight(int ranks) { return "straight" + std::to_string(ranks); }
  /// The run that is never stopped, made once for each number of ranks.
  static void make_straight(int ranks) {
    if (fs::exists(*files_ / straight(ranks))) return;
    const Outcome made = script(on(ranks) + "start " + straight(ranks));
    ASSERT_EQ(made.code, 0) << made.text;
  }
  static void expect_goes_on(const std::string& run, int ranks) {
    const Outcome again = script(on(ranks) + "start " + run);
    EXPECT_EQ(again.code, 0) << again.text;
    EXPECT_EQ(metrics(*files_ / run), metrics(*files_ / straight(ranks))) << again.text;
  }

  inline static testing::TemporaryDirectory* files_ = nullptr;
};

TEST_F(Preemption, ASignalToMpirunStopsAllRanks) {
  make_straight(2);
  const Outcome stopped =
      script(on(2) +
             "start outside & job=$!\n"
             "until grep -qs '\"step\":5,' outside/metrics.jsonl; do sleep 0.01; done\n"
             "kill -USR1 $(pgrep -P $job)\n"
             "wait $job");
  EXPECT_EQ(stopped.code, kStoppedExitCode) << stopped.text;
  EXPECT_TRUE(stopped.has("stopped by SIGUSR1 after step ")) << stopped.text;
  expect_goes_on("outside", 2);
}

/// Where a rank is when it gets the signal, and what is on the disk afterwards.
struct Moment {
  const char* name;
  const char* fault;
  int ranks;
  int saved;  ///< step of the newest checkpoint; 0: none, and none is needed
};

class StoppedAt : public Preemption, public ::testing::WithParamInterface<Moment> {};

TEST_P(StoppedAt, SavesAndGoesOn) {
  const Moment moment = GetParam();
  make_straight(moment.ranks);
  const std::string run = std::string("stopped_") + moment.name;
  const Outcome stopped = script(on(moment.ranks) + "start " + run + " " + moment.fault);
  EXPECT_EQ(stopped.code, kStoppedExitCode) << stopped.text;
  const auto steps = checkpoints::committed_steps(*files_ / run);
  EXPECT_EQ(steps.empty() ? 0 : steps.back(), moment.saved) << stopped.text;
  expect_goes_on(run, moment.ranks);
}

INSTANTIATE_TEST_SUITE_P(
    Moments, StoppedAt,
    ::testing::Values(
        Moment{"start_up", "--faults.kind=usr1 --faults.action=load --faults.step=0", 2, 0},
        Moment{"first_evaluation",
               "--faults.kind=usr1 --faults.action=evaluate --faults.step=0 --faults.rank=1", 2, 0},
        Moment{"forward", "--faults.kind=usr1 --faults.action=forward --faults.step=7", 2, 7},
        Moment{"one_rank_of_four",
               "--faults.kind=usr1 --faults.action=backward --faults.step=12 --faults.rank=3", 4,
               12},
        Moment{"update_by_term",
               "--faults.kind=term --faults.action=update --faults.step=8 --faults.rank=1", 2, 8},
        // Known at the vote of step 10, so that the evaluation after it is not begun.
        Moment{"before_evaluation", "--faults.kind=usr1 --faults.action=batches --faults.step=10",
               2, 10},
        Moment{"evaluation",
               "--faults.kind=usr1 --faults.action=evaluate --faults.step=10 --faults.rank=1", 2,
               10},
        Moment{"save",
               "--faults.kind=usr1 --faults.action='shard half written' --faults.step=15 "
               "--faults.rank=1",
               2, 16},
        Moment{"last_evaluation",
               "--faults.kind=usr1 --faults.action=evaluate --faults.step=40 --faults.rank=0", 2,
               40}),
    [](const auto& moment) { return std::string(moment.param.name); });

// The text of a step may take longer than its training: the step is given up, and begins again.
TEST_F(Preemption, WhileTheStudentWrites) {
  const std::string options =
      " --teacher.path=model --loss.ce_weight=0 --loss.kd_weight=1 --distill.method=mixed "
      "--distill.lambda=1 --distill.max_new=60 --distill.batch=1 --run.steps=4";
  const Outcome straight = script(on(2) + "start written" + options);
  ASSERT_EQ(straight.code, 0) << straight.text;
  const Outcome stopped = script(on(2) + "start interrupted" + options +
                                 " --faults.kind=usr1 --faults.action=generate --faults.step=3 "
                                 "--faults.rank=1");
  EXPECT_EQ(stopped.code, kStoppedExitCode) << stopped.text;
  EXPECT_TRUE(stopped.has("stopped by SIGUSR1 after step 2 of 4")) << stopped.text;
  const Outcome again = script(on(2) + "start interrupted" + options);
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(metrics(*files_ / "interrupted"), metrics(*files_ / "written")) << again.text;
}

}  // namespace
}  // namespace fathom::launch
