// A rank that stops answering, in whatever it does: within the limit the others name it, the job
// ends with the exit code of communication, and nothing is left running.

#include <gtest/gtest.h>

#include "core/error.h"
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

  /// Two ranks in a pipeline, with a limit of `seconds` for everything; tells how long it took and
  /// which of its processes are still there afterwards.
  static Outcome train(const std::string& run, const std::string& options, int seconds = 4) {
    const std::string limit = std::to_string(seconds);
    const std::string folder = (*files_ / run).string();
    // The brackets keep the pattern from finding the shell that looks for it.
    return shell("cd " + files_->path().string() + "\n$MPIRUN $FATHOM train --run.dir=" + folder +
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

/// A rank, and the action at which it is frozen.
struct Place {
  const char* name;
  int rank;
  int step;
  const char* action;
};

class FrozenIn : public Hang, public ::testing::WithParamInterface<Place> {};

TEST_P(FrozenIn, IsNamedAndTheJobEnds) {
  const Place place = GetParam();
  const std::string rank = std::to_string(place.rank);
  const Outcome outcome = train(place.name, "--faults.kind=freeze --faults.rank=" + rank +
                                                " --faults.step=" + std::to_string(place.step) +
                                                " --faults.action='" + place.action + "'");
  EXPECT_EQ(outcome.code, exit_code(ErrorKind::comm)) << outcome.text;
  EXPECT_TRUE(outcome.has("injected fault")) << outcome.text;
  EXPECT_TRUE(outcome.has("it waited for rank " + rank + ", which gave no report")) << outcome.text;
  EXPECT_FALSE(outcome.has("left running")) << outcome.text;

  const Outcome merged =
      shell("cd " + files_->path().string() + "\n$FATHOM hang-report " + place.name);
  EXPECT_EQ(merged.code, 0) << merged.text;
  EXPECT_TRUE(merged.has("the job waited for rank " + rank + ": gave no report")) << merged.text;
  EXPECT_TRUE(merged.has("rank " + std::to_string(1 - place.rank) + " on ")) << merged.text;
}

INSTANTIATE_TEST_SUITE_P(
    Actions, FrozenIn,
    ::testing::Values(Place{"load", 1, 0, "load"}, Place{"batches", 0, 3, "batches"},
                      Place{"recv_bundle", 1, 3, "recv_bundle"}, Place{"forward", 0, 3, "forward"},
                      Place{"send_bundle", 0, 3, "send_bundle"},
                      Place{"recv_grad", 0, 3, "recv_grad"}, Place{"backward", 1, 3, "backward"},
                      Place{"send_grad", 1, 3, "send_grad"}, Place{"update", 1, 3, "update"},
                      Place{"evaluate", 1, 2, "evaluate"}, Place{"save", 0, 2, "save"},
                      Place{"writing", 1, 2, "shard half written"}),
    [](const auto& place) { return std::string(place.param.name); });

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

TEST_F(Hang, ASlowLinkOnlyTakesItsTime) {
  const Outcome outcome =
      train("slow_link", "--faults.kind=slow_link --faults.seconds=0.2 --faults.rank=1");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_FALSE(outcome.has("watchdog:")) << outcome.text;
}

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
