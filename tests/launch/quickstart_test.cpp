// What launch/quickstart does where something is missing. All that it starts are stand-ins that
// write down how they were called.

#include <filesystem>
#include <gtest/gtest.h>

#include "core/files.h"
#include "tests/launch/program.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;
const fs::path kSource = FATHOM_SOURCE_DIR;

// Leaves behind what the script looks for later. Like the real one, convert writes no folder twice.
constexpr const char* kProgram = R"(echo "fathom $*" >>calls
command=$1; shift
case $command in
  import) mkdir -p "$2"; touch "$2/config.json" ;;
  convert) ! [ -e "$2" ] || exit 2; mkdir -p "$2"; touch "$2/config.json" ;;
  evaluate)
    for word; do
      case $word in --output=*) echo '{"rouge_l": {"mean": 12.5}}' >"${word#*=}" ;; esac
    done ;;
esac
)";

constexpr const char* kMpirun = R"(echo "mpirun $*" >>calls
for word; do
  case $word in --run.dir=*) run=${word#*=} ;; esac
done
mkdir -p "$run"
echo '{"kind":"eval","step":0,"loss":3.5}' >"$run/metrics.jsonl"
)";

class Quickstart : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(tree_ / "launch");
    fs::copy_file(kSource / "launch/quickstart", tree_ / "launch/quickstart");
    script("launch/packages", "");
    script("launch/build", "");
    script("launch/fathom-mpirun", kMpirun);
    script("build/bin/fathom", kProgram);
    script("data_tools/fetch_smollm2.sh", "echo model.gguf; exit ${TEACHER:-0}");
    script("data_tools/fetch_span_model.sh", "echo spans.h5; exit ${SPANS:-0}");
    script("bin/nvidia-smi", "for i in ${GPUS:-}; do echo \"GPU $i: a name\"; done");
  }

  void script(const std::string& name, const std::string& body) {
    fs::create_directories((tree_ / name).parent_path());
    files::write_text_atomically(tree_ / name, "#!/bin/sh\n" + body);
    fs::permissions(tree_ / name, fs::perms::owner_all);
  }

  /// Runs it with these variables set.
  Outcome run(const std::string& variables = "") {
    return shell("unset CUDA_VISIBLE_DEVICES\ncd " + tree_.path().string() +
                 "\nPATH=$PWD/bin:$PATH " + variables + " launch/quickstart");
  }

  std::string calls() const { return files::read_text(tree_ / "calls"); }
  bool called(const std::string& part) const { return calls().find(part) != std::string::npos; }

  testing::TemporaryDirectory tree_;
};

TEST_F(Quickstart, DistilsWithMta) {
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(called("mpirun -n 2 build/bin/fathom train configs/mta-smollm2.ini "
                     "--run.dir=runs/quickstart\n"))
      << calls();
  EXPECT_TRUE(fs::exists(kSource / "configs/mta-smollm2.ini"));
  for (const char* part : {"spans show", "checkpoint export runs/quickstart", "generate --model="})
    EXPECT_TRUE(called(part)) << part << " is not in\n" << calls();
  for (const char* part : {"after step 0: 3.5", "before: 12.50", "after: 12.50"})
    EXPECT_TRUE(outcome.has(part)) << part << " is not in\n" << outcome.text;
  EXPECT_FALSE(outcome.has("cannot be reached")) << outcome.text;
}

TEST_F(Quickstart, LeavesMtaOutWhereTheSpanModelCannotBeReached) {
  const Outcome outcome = run("SPANS=3");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(outcome.has("NO SPAN MODEL")) << outcome.text;
  EXPECT_TRUE(called("train configs/mta-smollm2.ini --mta.enabled=false")) << calls();
  EXPECT_FALSE(called("spans show")) << calls();
}

TEST_F(Quickstart, TrainsFromScratchWhereTheTeacherCannotBeReached) {
  const Outcome outcome = run("TEACHER=3");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(outcome.has("NO TEACHER")) << outcome.text;
  EXPECT_TRUE(called("train configs/shakespeare.ini --run.dir=runs/quickstart\n")) << calls();
  EXPECT_TRUE(fs::exists(kSource / "configs/shakespeare.ini"));
  EXPECT_FALSE(called("evaluate")) << calls();
}

TEST_F(Quickstart, EndsWithTheCodeOfAnyOtherFailure) {
  EXPECT_EQ(run("SPANS=4").code, 4);
  EXPECT_FALSE(called("mpirun")) << calls();
  EXPECT_EQ(run("TEACHER=2").code, 2);
  EXPECT_FALSE(called("mpirun")) << calls();
}

TEST_F(Quickstart, MakesAnIncompleteStudentAnew) {
  fs::create_directories(tree_ / "data/quickstart/student");
  EXPECT_EQ(run().code, 0);
  EXPECT_TRUE(called("fathom convert")) << calls();
  fs::remove(tree_ / "calls");
  EXPECT_EQ(run().code, 0);
  EXPECT_FALSE(called("fathom convert")) << calls();
  EXPECT_FALSE(called("fathom import")) << calls();
}

TEST_F(Quickstart, TrainsOnTheCpuWhereThereAreFewerGpusThanRanks) {
  const std::string cpu = "--run.dir=runs/quickstart --run.device=cpu\n";
  const Outcome one = run("GPUS=0");
  EXPECT_TRUE(called(cpu)) << calls();
  EXPECT_TRUE(one.has("GPUs here: 1, ranks: 2")) << one.text;
  fs::remove(tree_ / "calls");
  run("GPUS='0 1'");
  EXPECT_FALSE(called("--run.device")) << calls();
  run("GPUS='0 1' CUDA_VISIBLE_DEVICES=1");
  EXPECT_TRUE(called(cpu)) << calls();
}

}  // namespace
}  // namespace fathom::launch
