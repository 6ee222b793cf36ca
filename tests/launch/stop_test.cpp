// Every command that takes long stops soon when any of its ranks is asked to: all ranks together,
// with the exit code for it, and without half a result.

#include <fstream>
#include <gtest/gtest.h>

#include "core/files.h"
#include "core/stop_signal.h"
#include "tests/launch/program.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSamples = FATHOM_SOURCE_DIR "/data_tools/samples";

class Stop : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::TemporaryDirectory();
    write_model("model", {.vocab = 1024});
    write_model("deep", {.layers = 24, .vocab = 1024});
    testing::write_tokens(*files_ / "tokens.h5", 300, 10, 40, 503, 3, testing::shakespeare());
    std::string prompts;
    for (int i = 0; i < 500; ++i) prompts += "To be, or not to be?\n";
    files::write_text_atomically(*files_ / "prompts.txt", prompts);
  }
  static void TearDownTestSuite() { delete files_; }

  /// A small model with random weights and the tokenizer of the samples.
  static void write_model(const std::string& name, const testing::SmallModel& shape) {
    const fs::path folder = *files_ / name;
    testing::write_model(folder, shape, 7);
    testing::copy_shakespeare(folder);
  }

  /// Starts a command whose output goes to a file `log`, waits for a sign of progress, and asks one
  /// process to stop: `of` is the launcher, or the rank that it started last.
  static Outcome stop(const std::string& command, const std::string& sign,
                      const std::string& of = "$job") {
    return shell("cd " + files_->path().string() + "\nrm -f log\n" + command +
                 " >log 2>&1 & job=$!\nuntil " + sign + "; do sleep 0.02; done\nkill -USR1 " + of +
                 "\nwait $job\ncode=$?\ncat log\nexit $code");
  }
  static constexpr const char* kLastRank = "$(pgrep -P $job | tail -n 1)";

  static void expect_stopped(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, kStoppedExitCode) << outcome.text;
    EXPECT_TRUE(outcome.has("stopped by SIGUSR1 before the end")) << outcome.text;
    EXPECT_EQ(outcome.messages, 0) << outcome.text;
  }
  static void expect_absent(const std::string& file) {
    EXPECT_FALSE(fs::exists(*files_ / file)) << file;
    EXPECT_FALSE(fs::exists(*files_ / (file + ".tmp"))) << file;
  }

  inline static testing::TemporaryDirectory* files_ = nullptr;
};

TEST_F(Stop, AnEvaluationInWhichOneReplicaIsAsked) {
  std::string seeds = "1";
  for (int seed = 2; seed <= 2000; ++seed) seeds += "," + std::to_string(seed);
  expect_stopped(stop("$MPIRUN $FATHOM evaluate --model=model --dp=2 --threads=1 --prompts=" +
                          std::string(kSamples) +
                          "/vicuna80.jsonl --questions=9 --template=plain --rouge=false "
                          "--max-new=12 --seeds=" +
                          seeds + " --answers=answers.jsonl --output=scores.json",
                      "grep -q 'seed 2:' log", kLastRank));
  expect_absent("answers.jsonl");
  expect_absent("scores.json");
}

TEST_F(Stop, ScoringOfRecords) {
  testing::write_tokens(*files_ / "many.h5", 20000, 10, 40, 503, 3, testing::shakespeare());
  // Its signal handler is there before anything that takes long.
  expect_stopped(
      stop("$FATHOM evaluate --model=deep --threads=1 --batch=1 --data=many.h5 "
           "--output=loss.json",
           "(( 0x0$(sed -n 's/SigCgt:.//p' /proc/$job/status) & 0x200 ))"));
  expect_absent("loss.json");
}

TEST_F(Stop, TextThatStreams) {
  const Outcome outcome = stop(
      "$MPIRUN $FATHOM generate --model=model --pp=2 --threads=1 --prompt-file=prompts.txt "
      "--max-new=40 --ignore-eos --stream",
      "test $(wc -c <log) -gt 200");
  expect_stopped(outcome);
}

TEST_F(Stop, PairsWhoseSecondModelWrites) {
  expect_stopped(
      stop("$MPIRUN $FATHOM pairs --model=deep --teacher=model --tokens=tokens.h5 "
           "--max-new=20 --batch=4 --dp=2 --threads=1 --output=pairs",
           "grep -q 'teacher: .* prompts answered' log", kLastRank));
  expect_absent("pairs/chosen.h5");
  expect_absent("pairs/rejected.h5");
}

TEST_F(Stop, ACacheOfSpans) {
  const std::string tokenizer = std::string(" --tokenizer=") + kSamples + "/shakespeare";
  const Outcome made =
      shell("cd " + files_->path().string() + "\nfor i in 1 2 3 4; do cat " + kSamples +
            "/tinyshakespeare.txt; done >text.txt\n$FATHOM tokenize text.txt text.h5 --block=64" +
            tokenizer);
  ASSERT_EQ(made.code, 0) << made.text;
  expect_stopped(stop("$FATHOM spans build --tokens=text.h5 --threads=1 --span-model=" +
                          std::string(FATHOM_SPAN_MODEL) + tokenizer + " --output=spans.h5",
                      "(( 0x0$(sed -n 's/SigCgt:.//p' /proc/$job/status) & 0x200 ))"));
  expect_absent("spans.h5");
}

}  // namespace
}  // namespace fathom::launch
