// Which backend a program runs on, and what it says where there is no GPU. These tests look at the
// machine's own driver; where it has a GPU, they expect that it is used.

#include <dlfcn.h>
#include <filesystem>
#include <gtest/gtest.h>

#include "tests/launch/program.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;

bool has_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

bool has_library(const std::string& backend) {
  return fs::exists(fs::path(FATHOM_PROGRAM).parent_path() / "../lib" / backend /
                    "libfathom_kernels.so");
}

class Backend : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_model(folder_ / "model", {}, 7);
    testing::write_tokens(folder_ / "tokens.h5", 12, 4, 20, 503, 3);
  }
  Outcome in_folder(const std::string& command) {
    return shell("cd " + folder_.path().string() + "\n" + command);
  }
  /// As when one rank's node has what the other's lacks: `zero` and `one` are options of each.
  Outcome on_two_nodes(const std::string& zero, const std::string& one) {
    return in_folder("$MPIRUN sh -c '" +
                     train("two", "--grid.dp=2 $([ $OMPI_COMM_WORLD_RANK = 0 ] && echo " + zero +
                                      " || echo " + one + ")") +
                     "'");
  }
  static std::string sim_folder() {
    return (fs::path(FATHOM_PROGRAM).parent_path() / "../lib/sim").string();
  }
  static std::string train(const std::string& run, const std::string& more) {
    return "$FATHOM train --run.dir=" + run +
           " --run.steps=2 --model.path=model --data.train=tokens.h5 --batch.micro_batch=2 "
           "--batch.micro_batches=2 --log.tensorboard=false " +
           more;
  }

  testing::TemporaryDirectory folder_;
};

/// Where the GPU's code runs on the CPU.
class OnSim : public Backend {
 protected:
  static constexpr const char* kTwoOnSim = "--run.device=sim --grid.dp=2";
  void SetUp() override {
    if (!has_library("sim")) GTEST_SKIP() << "built without sim";
    Backend::SetUp();
  }
};

TEST_F(Backend, TheVersionNamesThemAll) {
  const Outcome version = in_folder("$FATHOM --version");
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(version.has("runs on cpu: ")) << version.text;
  EXPECT_TRUE(version.has("\ncuda: ")) << version.text;
  EXPECT_TRUE(version.has("\nsim: ")) << version.text;
  if (has_library("sim")) {
    EXPECT_TRUE(version.has("sim: 8 devices; CUDA ") && version.has("NCCL 2.")) << version.text;
  }
  const std::string why = !has_library("cuda") ? "built without it"
                          : !has_driver()      ? "no NVIDIA driver"
                                               : "";
  if (!why.empty()) {
    EXPECT_TRUE(version.has("cuda: cannot be used (" + why)) << version.text;
  }
}

TEST_F(Backend, WithoutAGpuTheCpuIsTakenAndSaysWhy) {
  if (has_driver()) GTEST_SKIP() << "this machine has an NVIDIA driver";
  const Outcome automatic = in_folder(train("auto", ""));
  EXPECT_EQ(automatic.code, 0) << automatic.text;
  EXPECT_TRUE(automatic.has("no GPU is used: ")) << automatic.text;
  EXPECT_TRUE(automatic.has("; on cpu")) << automatic.text;
  const Outcome chosen = in_folder(train("cpu", "--run.device=cpu"));
  EXPECT_EQ(chosen.code, 0) << chosen.text;
  EXPECT_FALSE(chosen.has("no GPU is used")) << chosen.text;
}

TEST_F(Backend, AGpuThatIsAskedForMustBeThere) {
  if (has_driver()) GTEST_SKIP() << "this machine has an NVIDIA driver";
  const std::string why = has_library("cuda") ? "no NVIDIA driver" : "built without it";
  expect_refused(in_folder(train("cuda", "--run.device=cuda")), 2, "device = cuda", why);
  expect_refused(in_folder("$MPIRUN " + train("two", "--run.device=cuda --grid.dp=2")), 2,
                 "device = cuda", why);
  expect_refused(in_folder("$FATHOM generate --model=model --prompt=x --device=cuda"), 2, why);
  EXPECT_FALSE(fs::exists(folder_ / "cuda"));
}

TEST_F(Backend, TheCpuKnowsF32Alone) {
  expect_refused(in_folder(train("bf16", "--run.device=cpu --run.precision=bf16")), 2,
                 "run.precision = bf16", "run.device = cpu");
  if (has_driver()) GTEST_SKIP() << "this machine has an NVIDIA driver";
  expect_refused(in_folder(train("tf32", "--run.precision=tf32")), 2, "need a GPU");
  EXPECT_FALSE(fs::exists(folder_ / "bf16"));
}

// Full micro-batches: more than the limit by the plan, which is said before anything is loaded. What
// is in the files may need less; here it needs more too.
TEST_F(Backend, AMemoryLimitIsKept) {
  const Outcome small = in_folder(train("small", "--run.device=cpu --run.memory_limit_gib=0.002"));
  expect_refused(small, 2, "run.memory_limit_gib", "memory.recompute");
  EXPECT_TRUE(small.has("full micro-batches would need ")) << small.text;
  EXPECT_FALSE(in_folder(train("large", "--run.device=cpu")).has("full micro-batches"));
}

// The loader did not give what was asked for: the program must not start itself again and again.
TEST_F(Backend, StartsAnewOnlyOnce) {
  if (!has_library("sim")) GTEST_SKIP() << "built without sim";
  expect_refused(in_folder("FATHOM_BACKEND=sim " + train("loop", "--run.device=sim")), 2,
                 "the library of cpu", "LD_LIBRARY_PATH");
}

TEST_F(Backend, StartsAnewOnTheLibraryThatIsAskedFor) {
  if (!has_library("sim")) GTEST_SKIP() << "built without sim";
  const Outcome sim = in_folder(train("sim", "--run.device=sim"));
  EXPECT_EQ(sim.code, 0) << sim.text;
  EXPECT_TRUE(sim.has("; on sim 0 (")) << sim.text;
  EXPECT_TRUE(sim.has("on sim: kernels on fibers; CUDA ")) << sim.text;
  const Outcome two = in_folder("$MPIRUN " + train("two", "--run.device=sim --grid.dp=2"));
  EXPECT_EQ(two.code, 0) << two.text;
  EXPECT_TRUE(two.has("; on sim 1 (")) << two.text;
  // And back again, where the environment would have it otherwise.
  const Outcome cpu =
      in_folder("export LD_LIBRARY_PATH=" + sim_folder() + "\n" + train("cpu", "--run.device=cpu"));
  EXPECT_EQ(cpu.code, 0) << cpu.text;
  EXPECT_TRUE(cpu.has("; on cpu")) << cpu.text;
}

TEST_F(OnSim, RanksOnUnlikeDevicesAreNamed) {
  expect_refused(on_two_nodes("--run.device=sim", "--run.device=cpu"), 2, "rank 0 on ",
                 ": sim, rank 1 on ", ": cpu");
  expect_refused(on_two_nodes("--run.device=cpu", "--run.device=sim"), 2, "rank 0 on ", ": cpu",
                 ": sim;");
}

TEST_F(OnSim, TwoRanksOnOneDeviceAreRefused) {
  expect_refused(in_folder("export FATHOM_SIM_DEVICES=1\n$MPIRUN " + train("one", kTwoOnSim)), 2,
                 "ranks 0 and 1 on ", "would share GPU");
  expect_refused(in_folder("export FATHOM_SIM_DEVICES=0\n$MPIRUN " + train("none", kTwoOnSim)), 2,
                 "device = sim cannot be used", "FATHOM_SIM_DEVICES is 0");
  expect_refused(in_folder("export FATHOM_SIM_CAPABILITY=75\n$MPIRUN " + train("old", kTwoOnSim)),
                 2, "device = sim cannot be used", "compute capability 7.5");
}

// Where nobody has asked for a GPU: as many as ranks, or none.
TEST_F(OnSim, TooFewDevicesLeaveTheCpu) {
  if (has_driver()) GTEST_SKIP() << "this machine has an NVIDIA driver";
  const auto automatic = [&](const std::string& devices) {
    return in_folder("export FATHOM_SIM_DEVICES=" + devices + " LD_LIBRARY_PATH=" + sim_folder() +
                     "\n$MPIRUN " + train("auto" + devices, "--grid.dp=2"));
  };
  const Outcome one = automatic("1"), two = automatic("2");
  EXPECT_EQ(one.code, 0) << one.text;
  EXPECT_TRUE(one.has("no GPU is used: 1 GPU for the 2 ranks of this node")) << one.text;
  EXPECT_TRUE(one.has("; on cpu")) << one.text;
  EXPECT_EQ(two.code, 0) << two.text;
  EXPECT_TRUE(two.has("; on sim 1 (")) << two.text;
}

TEST_F(OnSim, OutOfMemorySaysWhatIsThere) {
  expect_refused(in_folder("export FATHOM_SIM_MEMORY=512\n$MPIRUN " + train("two", kTwoOnSim)), 2,
                 "512 MiB free of 512 MiB", "NCCL", "batch.micro_batch");
  expect_refused(in_folder(train("one", "--run.device=sim --run.memory_limit_gib=0.0001")), 2,
                 "run.memory_limit_gib", "memory.recompute");
  // A command without a recipe has the option too.
  expect_refused(
      in_folder("$FATHOM evaluate --model=model --data=tokens.h5 --device=sim --precision=bf16 "
                "--memory-limit-gib=0.0001"),
      2, "run.memory_limit_gib");
}

TEST_F(OnSim, HeadsThatAGpuHasNoRoomForAreRefusedAtTheStart) {
  testing::write_model(folder_ / "wide", {.layers = 1, .hidden = 256, .heads = 2}, 7);
  expect_refused(in_folder("export FATHOM_SIM_CAPABILITY=86\n" +
                           train("heads", "--run.device=sim --model.path=wide")),
                 2, "101376 bytes of shared memory", "heads of 128");
}

// As when a cable is pulled: in the middle of a step.
TEST_F(OnSim, AFailureOfNcclEndsTheJob) {
  expect_refused(in_folder("export FATHOM_SIM_NCCL_FAILS=4\n$MPIRUN " + train("two", kTwoOnSim)), 5,
                 "ncclAllReduce", "unhandled system error", "FATHOM_SIM_NCCL_FAILS is 4");
}

}  // namespace
}  // namespace fathom::launch
