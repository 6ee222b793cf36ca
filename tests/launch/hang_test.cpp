// A rank that stops answering, in whatever it does: within the limit the others name it, the job
// ends with the exit code of communication, and nothing is left running.

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "tests/launch/program.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

class Hang : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::TemporaryDirectory();
    testing::write_model(*files_ / "model", {}, 7);
    testing::write_tokens(*files_ / "tokens.h5", 40, 2, 40, 503, 3);
    testing::write_tokens(*files_ / "eval.h5", 20, 20, 40, 503, 5);
  }
  static void TearDownTestSuite() { delete files_; }

  /// Two ranks in a pipeline unless the options say otherwise, with a limit of `seconds` for
  /// everything; tells which of its processes are still there afterwards.
  static Outcome train(const std::string& run, const std::string& options, int seconds = 4,
                       int ranks = 2, const std::string& before = "") {
    const std::string limit = std::to_string(seconds);
    const std::string folder = (*files_ / run).string();
    // The brackets keep the pattern from finding the shell that looks for it.
    return shell("cd " + files_->path().string() + "\n" + before + "\n${MPIRUN/-np 2/-np " +
                 std::to_string(ranks) + "} $FATHOM train --run.dir=" + folder +
                 " --run.steps=4 --run.eval_every=2 --run.save_every=2 --model.path=model "
                 "--data.train=tokens.h5 --data.eval=eval.h5 --batch.micro_batch=2 "
                 "--batch.micro_batches=2 --grid.pp=2 --log.tensorboard=false "
                 "--run.watchdog_seconds=" +
                 limit + " --run.watchdog_load_seconds=" + limit +
                 " --run.watchdog_save_seconds=" + limit + " --run.watchdog_eval_seconds=" + limit +
                 " " + options + "\ncode=$?\npgrep -f 'fathom [t]rain --run.dir=" + folder +
                 " ' && echo left running\nexit $code");
  }

  inline static testing::TemporaryDirectory* files_ = nullptr;
};

constexpr int kRanks = 4;

/// What a rank of four does when it is frozen.
struct Place {
  std::string action;
  int rank;
  int step;
  const char* grid;
  const char* more = "";
};

constexpr const char* kReplicas = "--grid.dp=2 --grid.pp=2";  // rank 2 replica + stage
constexpr const char* kShards = "--grid.tp=2 --grid.pp=2";    // rank 2 stage + shard

/// Every action, each on another rank and by turns on two grids; with FATHOM_ALL_FREEZES in the
/// environment on every rank that has it, which takes ten minutes.
std::vector<Place> places() {
  struct Action {
    const char* name;
    int step;
    int stage;  // that has it; -1: both
  };
  const bool every = std::getenv("FATHOM_ALL_FREEZES") != nullptr;
  std::vector<Action> actions = {{"load", 0, -1},          {"evaluate", 2, -1},
                                 {"batches", 3, -1},       {"generate", 3, -1},
                                 {"forward", 3, -1},       {"send_bundle", 3, 0},
                                 {"recv_bundle", 3, 1},    {"backward", 3, -1},
                                 {"send_grad", 3, 1},      {"recv_grad", 3, 0},
                                 {"update", 3, -1},        {"save", 2, -1},
                                 {"shard created", 2, -1}, {"shard half written", 2, -1},
                                 {"shard written", 2, -1}};
  if (every) actions.insert(actions.end(), {{"finish_bundle", 3, 0}, {"finish_grad", 3, 1}});
  std::vector<Place> all;
  int turn = 0;
  for (const Action& action : actions) {
    const char* grid = ++turn % 2 ? kReplicas : kShards;
    std::vector<int> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      const int stage = grid == kReplicas ? rank % 2 : rank / 2;
      if (action.stage < 0 || action.stage == stage) ranks.push_back(rank);
    }
    if (!every) ranks = {ranks[static_cast<std::size_t>(turn / 2) % ranks.size()]};
    for (const int rank : ranks) all.push_back({action.name, rank, action.step, grid});
  }
  // Rank 0 alone commits and prunes.
  for (const char* action : {"all shards written", "manifest written", "published"})
    all.push_back({action, 0, 2, kReplicas});
  if (!every) return all;
  for (const char* action :
       {"latest written", "pruning", "pruned renamed", "pruned half", "pruned"})
    all.push_back({action, 0, 4, kReplicas, " --run.keep=1"});
  return all;
}

std::string name_of(const Place& place) {
  std::string name = place.action + "_rank_" + std::to_string(place.rank);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

class FrozenIn : public Hang, public ::testing::WithParamInterface<Place> {};

TEST_P(FrozenIn, IsNamedAndTheJobEnds) {
  const Place place = GetParam();
  const std::string run = name_of(place), rank = std::to_string(place.rank);
  const std::string writes =
      " --teacher.path=model --loss.kd_weight=1 --distill.method=mixed --distill.lambda=1 "
      "--distill.max_new=8";
  const Outcome outcome =
      train(run,
            std::string(place.grid) + place.more + (place.action == "generate" ? writes : "") +
                " --faults.kind=freeze --faults.rank=" + rank + " --faults.step=" +
                std::to_string(place.step) + " --faults.action='" + place.action + "'",
            6, kRanks);
  EXPECT_EQ(outcome.code, exit_code(ErrorKind::comm)) << outcome.text;
  EXPECT_TRUE(outcome.has("injected fault")) << outcome.text;
  EXPECT_TRUE(outcome.has("it waited for rank " + rank + ", which gave no report")) << outcome.text;
  EXPECT_FALSE(outcome.has("left running")) << outcome.text;

  const Outcome merged = shell("cd " + files_->path().string() + "\n$FATHOM hang-report " + run);
  EXPECT_EQ(merged.code, 0) << merged.text;
  EXPECT_TRUE(merged.has("the job waited for rank " + rank + ": gave no report"))
      << merged.text << outcome.text;
  for (int other = 0; other < kRanks; ++other)
    EXPECT_EQ(merged.has("rank " + std::to_string(other) + " on "), other != place.rank)
        << merged.text;
}

INSTANTIATE_TEST_SUITE_P(Actions, FrozenIn, ::testing::ValuesIn(places()),
                         [](const auto& place) { return name_of(place.param); });

TEST_F(Hang, ARankThatIsBusyWithoutEndIsNamedByItsAction) {
  const Outcome outcome =
      train("busy",
            "--faults.kind=stall --faults.seconds=100 --faults.rank=1 --faults.step=3 "
            "--faults.action=backward");
  EXPECT_EQ(outcome.code, exit_code(ErrorKind::comm)) << outcome.text;
  EXPECT_TRUE(outcome.has("it waited for rank 1, which waits for no other rank")) << outcome.text;
  EXPECT_TRUE(outcome.has("waits for nobody; last action backward, step 3")) << outcome.text;
  EXPECT_FALSE(outcome.has("left running")) << outcome.text;
}

TEST_F(Hang, ASlowSaveHasItsOwnLimit) {
  const Outcome outcome =
      train("slow_save",
            "--faults.kind=stall --faults.seconds=5 --faults.rank=0 --faults.step=2 "
            "--faults.action='shard half written' --run.watchdog_save_seconds=60");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_FALSE(outcome.has("watchdog:")) << outcome.text;
}

// Rank 0 commits and prunes when it finds, after a step, that all ranks have written.
TEST_F(Hang, ASlowCommitHasTheLimitOfASave) {
  for (const char* fault : {"--faults.step=3 --faults.action='all shards written'",
                            "--faults.step=6 --faults.action=pruning"}) {
    const Outcome outcome =
        train("slow_commit",
              std::string("--run.steps=8 --run.save_every=3 --run.keep=1 --faults.kind=stall "
                          "--faults.seconds=5 --run.watchdog_save_seconds=60 ") +
                  fault);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_TRUE(outcome.has("injected fault")) << outcome.text;
    EXPECT_FALSE(outcome.has("watchdog:")) << outcome.text;
    std::filesystem::remove_all(*files_ / "slow_commit");
  }
}

TEST_F(Hang, ARankThatStopsBeforeMpiIsUpEndsTheJob) {
  files::write_text_atomically(*files_ / "late_fathom",
                               "[ $OMPI_COMM_WORLD_RANK = 1 ] && kill -STOP $$\n"
                               "exec " FATHOM_PROGRAM " \"$@\"\n");
  const Outcome outcome = train("late", "", 4, 2, "FATHOM='bash late_fathom'");
  EXPECT_EQ(outcome.code, exit_code(ErrorKind::comm)) << outcome.text;
  EXPECT_TRUE(outcome.has("waits in the start of MPI 1 of ranks 0, 1")) << outcome.text;
  EXPECT_FALSE(outcome.has("left running")) << outcome.text;
}

TEST_F(Hang, ARankThatStopsWhenAllIsDoneEndsTheJob) {
  const Outcome outcome = train("done",
                                "--faults.kind=freeze --faults.rank=1 --faults.step=4 "
                                "--faults.action=finalize");
  EXPECT_EQ(outcome.code, exit_code(ErrorKind::comm)) << outcome.text;
  // Whoever frees the grid first waits there, under the eyes of the run's own watchdog.
  EXPECT_TRUE(outcome.has("waits in the end of MPI 1 of ranks 0, 1") ||
              outcome.has("it waited for rank 1"))
      << outcome.text;
  EXPECT_FALSE(outcome.has("left running")) << outcome.text;
}

TEST_F(Hang, ASlowLinkOnlyTakesItsTime) {
  const Outcome outcome =
      train("slow_link", "--faults.kind=slow_link --faults.seconds=0.2 --faults.rank=1");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_FALSE(outcome.has("watchdog:")) << outcome.text;
}

class FrozenCommand : public Hang, public ::testing::WithParamInterface<const char*> {};

TEST_P(FrozenCommand, IsEndedByTheOtherRank) {
  testing::write_tokens(*files_ / "long.h5", 20000, 20, 40, 503, 5);
  std::filesystem::remove_all(*files_ / "hang");
  const Outcome outcome = shell(
      "cd " + files_->path().string() + "\n$MPIRUN $FATHOM " + GetParam() +
      " >log 2>&1 & job=$!\n" +
      // It has its signal handler, so that it is at work; the second is for the start of MPI.
      "until (( 0x0$(sed -n 's/SigCgt:.//p' /proc/$(pgrep -P $job | tail -n 1)/status) & 0x200 ))\n"
      "do sleep 0.02; done; sleep 1; kill -STOP $(pgrep -P $job | tail -n 1)\n"
      "wait $job; code=$?; cat log; exit $code");
  EXPECT_EQ(outcome.code, exit_code(ErrorKind::comm)) << outcome.text;
  EXPECT_TRUE(outcome.has("it waited for rank 1, which gave no report")) << outcome.text;
  const Outcome merged = shell("cd " + files_->path().string() + "\n$FATHOM hang-report .");
  EXPECT_TRUE(merged.has("the job waited for rank 1")) << merged.text;
}

INSTANTIATE_TEST_SUITE_P(
    Commands, FrozenCommand,
    ::testing::Values(
        "evaluate --model=model --data=long.h5 --batch=1 --tp=2 --threads=1 "
        "--watchdog-seconds=4",
        "diagnose depth --model=model --data=long.h5 --batch=1 --tp=2 --threads=1 "
        "--watchdog-seconds=4 --output=report",
        "probe --model.path=" FATHOM_TEST_DATA "/golden/models/llama "
        "--input=" FATHOM_TEST_DATA
        "/golden/models/llama/inputs.safetensors --output=probe --grid.pp=2 --steps=100000 "
        "--run.threads=1 --run.watchdog_eval_seconds=4"),
    [](const auto& command) {
      const std::string words = command.param;
      return words.substr(0, words.find(' '));
    });

TEST_F(Hang, ARankThatIsKilledTakesTheJobWithIt) {
  const Outcome outcome =
      train("killed", "--faults.kind=kill --faults.rank=1 --faults.step=3 --faults.action=forward");
  EXPECT_NE(outcome.code, 0) << outcome.text;
  EXPECT_NE(outcome.code, 124) << outcome.text;
  EXPECT_FALSE(outcome.has("left running")) << outcome.text;
}

TEST_F(Hang, ANanOfOneRankIsToldByAll) {
  const Outcome outcome = train("nan", "--faults.kind=nan --faults.rank=1 --faults.step=3");
  EXPECT_EQ(outcome.code, exit_code(ErrorKind::numeric)) << outcome.text;
  EXPECT_TRUE(outcome.has("step 3: loss")) << outcome.text;
}

}  // namespace
}  // namespace fathom::launch
