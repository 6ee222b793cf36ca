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
  static std::string train(const std::string& run, const std::string& more) {
    return "$FATHOM train --run.dir=" + run +
           " --run.steps=2 --model.path=model --data.train=tokens.h5 --batch.micro_batch=2 "
           "--batch.micro_batches=2 --log.tensorboard=false " +
           more;
  }

  testing::TemporaryDirectory folder_;
};

TEST_F(Backend, TheVersionNamesThemAll) {
  const Outcome version = in_folder("$FATHOM --version");
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(version.has("runs on cpu: ")) << version.text;
  EXPECT_TRUE(version.has("\ncuda: ")) << version.text;
  EXPECT_TRUE(version.has("\nsim: ")) << version.text;
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
  const Outcome two = in_folder("$MPIRUN " + train("two", "--run.device=sim --grid.dp=2"));
  EXPECT_EQ(two.code, 0) << two.text;
  EXPECT_TRUE(two.has("; on sim 1 (")) << two.text;
  // And back again, where the environment would have it otherwise.
  const Outcome cpu = in_folder(
      "export LD_LIBRARY_PATH=" + (fs::path(FATHOM_PROGRAM).parent_path() / "../lib/sim").string() +
      "\n" + train("cpu", "--run.device=cpu"));
  EXPECT_EQ(cpu.code, 0) << cpu.text;
  EXPECT_TRUE(cpu.has("; on cpu")) << cpu.text;
}

}  // namespace
}  // namespace fathom::launch
