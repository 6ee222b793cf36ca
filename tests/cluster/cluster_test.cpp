// A run in the hands of a real Slurm: preempted, at its time limit, on a node that dies, started
// twice, and never finishing. Whatever happens, the losses are those of a run that was left alone.

#include <chrono>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <thread>
#include <unistd.h>

#include "core/files.h"
#include "tests/launch/program.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Two nodes with two cores each; partition `high` takes them from jobs of `low`.
class Cluster : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TemporaryDirectory();
    testing::write_model(*folder_ / "model", {}, 7);
    testing::write_tokens(*folder_ / "tokens.h5", 80, 2, 40, 503, 3);
    const Outcome started =
        shell(kFixture + " start " + slurm() + " 2 " + std::to_string(getpid()), 60);
    ready_ = started.code == 0;
    if (!ready_) ADD_FAILURE() << "the private Slurm does not start: " << started.text;
    const Outcome made = shell(in_folder("$FATHOM train " + options("straight", 1)), 60);
    ASSERT_EQ(made.code, 0) << made.text;
  }
  static void TearDownTestSuite() {
    shell(kFixture + " stop " + slurm(), 60);
    delete folder_;
  }
  void SetUp() override {
    if (!ready_) FAIL() << "there is no cluster (ctest -LE cluster leaves these tests out)";
  }
  void TearDown() override {
    if (ready_) on_head("scancel --full -u root; while squeue -h | grep -q .; do sleep 0.2; done");
  }

  static std::string slurm() { return folder_->path().string() + "/s"; }
  static std::string in_folder(const std::string& command) {
    return "cd " + folder_->path().string() + "\n" + command;
  }
  /// A command on the cluster's head, in the folder of the files.
  static Outcome on_head(const std::string& command) {
    return shell(
        in_folder("export FATHOM_HOME=" FATHOM_SOURCE_DIR
                  " FATHOM_YIELD=1 OMPI_ALLOW_RUN_AS_ROOT=1 "
                  "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 templates=" FATHOM_SOURCE_DIR "/slurm\n" +
                  kFixture + " run " + slurm() + " bash -c '" + command + "'"),
        60);
  }
  /// Submits a template; the job's number.
  static std::string submit(const std::string& arguments) {
    const Outcome outcome = on_head("sbatch --parsable --output=job-%j.log " + arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    return outcome.text.substr(0, outcome.text.find('\n'));
  }

  static constexpr int kSteps = 60;

  /// Words of `fathom train`: `ranks` stages, about a tenth of a second a step where there are two.
  static std::string options(const std::string& run, int ranks, const std::string& more = "") {
    return "--run.dir=" + run + " --run.steps=" + std::to_string(kSteps) +
           " --run.save_every=5 --model.path=model --data.train=tokens.h5 --batch.micro_batch=2 "
           "--batch.micro_batches=2 --log.tensorboard=false --dropout.residual=0.1 "
           "--run.threads=1 --grid.pp=" +
           std::to_string(ranks) +
           (ranks > 1 && more.empty() ? " --faults.kind=slow_link --faults.seconds=0.05" : "") +
           " " + more;
  }

  static std::string log_of(const std::string& job) {
    const fs::path path = *folder_ / ("job-" + job + ".log");
    return fs::exists(path) ? files::read_text(path) : "";
  }
  static std::vector<double> losses(const std::string& run) {
    std::ifstream file(*folder_ / run / "metrics.jsonl");
    std::vector<double> all;
    for (std::string line; std::getline(file, line);) {
      const json step = json::parse(line, nullptr, false);
      if (!step.is_discarded()) all.push_back(step.at("loss"));  // else it is being written
    }
    return all;
  }

  template <typename Condition>
  static bool within(int seconds, Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!condition() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return condition();
  }
  static bool log_has(const std::string& job, const std::string& text, int seconds) {
    return within(seconds, [&] { return log_of(job).find(text) != std::string::npos; });
  }
  /// True when so many steps of a run are in its metrics.
  static bool reaches(const std::string& run, std::size_t steps, int seconds) {
    return within(seconds, [&] { return losses(run).size() >= steps; });
  }
  static bool ends(const std::string& job, int seconds) {
    return within(seconds, [&] {
      const Outcome queue = on_head("squeue -h -j " + job + " -o %T");
      return queue.text.find_first_not_of(" \n") == std::string::npos || queue.has("Invalid");
    });
  }
  static void expect_undisturbed_losses(const std::string& run) {
    const auto found = losses(run), expected = losses("straight");
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << run << ", step " << i + 1;
  }

  inline static const std::string kFixture = FATHOM_SOURCE_DIR "/tests/cluster/private_slurm";
  inline static testing::TemporaryDirectory* folder_ = nullptr;
  inline static bool ready_ = false;
};

TEST_F(Cluster, PreemptedRequeuedAndFinishedOnFewerNodes) {
  const std::string job =
      submit("--nodes=2 --ntasks-per-node=1 $templates/train-srun.sbatch " + options("moved", 2));
  ASSERT_TRUE(reaches("moved", 5, 20)) << log_of(job);
  submit("--partition=high --nodes=2 --exclusive --wrap=\"sleep 1\"");
  ASSERT_TRUE(log_has(job, "stopped by SIGUSR1", 20)) << log_of(job);
  ASSERT_TRUE(log_has(job, "resumed from", 40)) << log_of(job);
  const std::size_t so_far = losses("moved").size();
  ASSERT_TRUE(reaches("moved", so_far + 3, 20)) << log_of(job);
  // Cancelled: SIGTERM is the last resort, and enough for a small model.
  on_head("scancel " + job);
  ASSERT_TRUE(ends(job, 20)) << log_of(job);
  EXPECT_NE(log_of(job).find("ended by Slurm"), std::string::npos) << log_of(job);
  EXPECT_LT(losses("moved").size(), static_cast<std::size_t>(kSteps)) << "it was too quick";

  const std::string rest =
      submit("--nodes=1 --ntasks-per-node=1 $templates/train-srun.sbatch " + options("moved", 1));
  ASSERT_TRUE(ends(rest, 30)) << log_of(rest);
  EXPECT_NE(log_of(rest).find("resumed from"), std::string::npos) << log_of(rest);
  expect_undisturbed_losses("moved");
}

TEST_F(Cluster, AtTheTimeLimitItStopsAndGoesOnByItself) {
  // The shortest limit is a minute, and Slurm looks for signals that are due every half minute: the
  // run has to last longer than that, also on a fast machine.
  const std::string job = submit(
      "--nodes=2 --ntasks-per-node=1 --time=1 --signal=B:USR1@56 $templates/train-mpirun.sbatch " +
      options("limited", 2, "--faults.kind=slow_link --faults.seconds=0.3"));
  ASSERT_TRUE(log_has(job, "ended with code 75", 60)) << log_of(job);
  ASSERT_TRUE(log_has(job, "ended with code 0", 180)) << log_of(job);
  EXPECT_NE(log_of(job).find("stopped by SIGUSR1"), std::string::npos) << log_of(job);
  expect_undisturbed_losses("limited");
}

TEST_F(Cluster, ANodeThatDiesTakesNothingWithIt) {
  const std::string job =
      submit("--nodes=2 --ntasks-per-node=1 $templates/train-srun.sbatch " + options("crashed", 2));
  ASSERT_TRUE(reaches("crashed", 12, 20)) << log_of(job);
  shell(kFixture + " crash " + slurm() + " n1", 20);
  ASSERT_TRUE(within(45, [&] { return on_head("squeue -h -j " + job + " -o %T").has("PENDING"); }))
      << log_of(job);
  shell(kFixture + " revive " + slurm() + " n1", 20);
  ASSERT_TRUE(log_has(job, "ended with code 0", 120)) << log_of(job);
  EXPECT_NE(log_of(job).find("resumed from"), std::string::npos) << log_of(job);
  expect_undisturbed_losses("crashed");
}

TEST_F(Cluster, TheSecondOfTwoJobsInOneFolderIsRefused) {
  const std::string first =
      submit("--nodes=2 --ntasks-per-node=1 $templates/train-srun.sbatch " + options("shared", 2));
  ASSERT_TRUE(reaches("shared", 2, 20)) << log_of(first);
  const std::string second =
      submit("--nodes=1 --ntasks-per-node=1 $templates/train-srun.sbatch " + options("shared", 1));
  ASSERT_TRUE(log_has(second, "ended with code 4", 20)) << log_of(second);
  EXPECT_NE(log_of(second).find("in use by another run: host=n"), std::string::npos)
      << log_of(second);
  ASSERT_TRUE(log_has(first, "ended with code 0", 120)) << log_of(first);
  expect_undisturbed_losses("shared");
}

TEST_F(Cluster, ARunThatDiesBeforeEverySaveIsNotRestartedForEver) {
  const std::string job =
      submit("--nodes=1 --ntasks-per-node=2 $templates/train-srun.sbatch " +
             options("doomed", 2,
                     "--faults.kind=kill --faults.rank=1 --faults.step=2 --faults.action=forward"));
  ASSERT_TRUE(log_has(job, "four starts in a row from the same checkpoint (none)", 75))
      << log_of(job);
  EXPECT_TRUE(ends(job, 20));
}

TEST_F(Cluster, TakesEveryJobScript) {
  for (const char* words :
       {"--nodes=2 $templates/train-srun.sbatch", "--nodes=2 $templates/train-mpirun.sbatch",
        "--nodes=2 --ntasks-per-node=2 --cpus-per-task=1 --gpus-per-node=2 "
        "$templates/train-gpu.sbatch"}) {
    const Outcome outcome = on_head(std::string("sbatch --test-only ") + words);
    EXPECT_EQ(outcome.code, 0) << words << outcome.text;
    EXPECT_TRUE(outcome.has("to start at")) << outcome.text;
  }
  const Outcome more = on_head("sbatch --test-only --gpus-per-node=3 $templates/train-gpu.sbatch");
  EXPECT_NE(more.code, 0) << "a node has two";
}

TEST_F(Cluster, EveryTaskOfAGpuJobSeesAllGpusOfItsNode) {
  // In the program's place, what it would see.
  files::write_text_atomically(
      *folder_ / "see",
      "#!/bin/sh\ncase $* in *--print-config*) echo dir = gpus;; *) echo $SLURM_PROCID: "
      "$CUDA_VISIBLE_DEVICES;; esac\n");
  shell(in_folder("chmod +x see"));
  const std::string job = submit(
      "--export=ALL,FATHOM=$PWD/see --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 "
      "--gpus-per-node=2 $templates/train-gpu.sbatch");
  ASSERT_TRUE(log_has(job, "ended with code 0", 30)) << log_of(job);
  for (const char* line : {"0: 0,1\n", "1: 0,1\n", "2: 0,1\n", "3: 0,1\n"})
    EXPECT_NE(log_of(job).find(line), std::string::npos) << log_of(job);
}

TEST_F(Cluster, RanksThatDoNotFindEachOtherAreTold) {
  const Outcome outcome =
      on_head("srun --mpi=none -N2 --ntasks-per-node=1 $FATHOM train " + options("lonely", 2));
  EXPECT_NE(outcome.code, 0);
  EXPECT_TRUE(outcome.has("Slurm says 2 tasks but MPI sees 1")) << outcome.text;
}

}  // namespace
}  // namespace fathom::launch
