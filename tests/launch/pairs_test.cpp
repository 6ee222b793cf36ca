// `fathom pairs` as a user runs it: two models' answers to the same prompts, the same on every
// grid, and training on them.

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/token_file.h"
#include "tests/launch/program.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;
using data::TokenFile;

class Pairs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::TemporaryDirectory();
    testing::write_model(*files_ / "student", {}, 7);
    testing::write_model(*files_ / "teacher", {.layers = 6}, 11);
    testing::write_tokens(*files_ / "tokens.h5", 24, 2, 40, 503, 3);
  }
  static void TearDownTestSuite() { delete files_; }

  static Outcome in_folder(const std::string& command) {
    return shell("cd " + files_->path().string() + "\n" + command);
  }
  static void succeed(const std::string& command) {
    const Outcome outcome = in_folder(command);
    ASSERT_EQ(outcome.code, 0) << command << "\n" << outcome.text;
  }
  static std::string pairs(const std::string& more) {
    return "$FATHOM pairs --model=student --teacher=teacher --tokens=tokens.h5 --max-new=9 "
           "--threads=1 " +
           more;
  }
  static TokenFile open(const std::string& name) { return TokenFile::open(*files_ / name); }
  static std::string train(const std::string& more) {
    return "$FATHOM train --model.path=student --teacher.path=teacher --loss.ce_weight=0 "
           "--loss.kd_weight=1 --distill.method=contrastive --run.steps=2 --run.threads=1 "
           "--batch.micro_batch=2 --batch.micro_batches=2 --log.tensorboard=false " +
           more;
  }

  inline static testing::TemporaryDirectory* files_ = nullptr;
};

TEST_F(Pairs, AreAnswersToTheSamePrompts) {
  succeed(pairs("--output=one"));
  const TokenFile prompts = open("tokens.h5"), chosen = open("one/chosen.h5"),
                  rejected = open("one/rejected.h5");
  std::int64_t with_prompt = 0;
  for (std::int64_t r = 0; r < prompts.records(); ++r) with_prompt += prompts.prompt_length(r) > 0;
  ASSERT_EQ(chosen.records(), with_prompt);
  ASSERT_EQ(rejected.records(), with_prompt);
  for (std::int64_t r = 0; r < chosen.records(); ++r) {
    // Sources are record numbers in these files.
    const auto prompt = prompts.record(chosen.source(r));
    const auto length = static_cast<std::size_t>(prompt.prompt_length);
    for (const TokenFile* file : {&chosen, &rejected}) {
      const auto record = file->record(r);
      EXPECT_EQ(record.prompt_length, prompt.prompt_length);
      EXPECT_TRUE(std::ranges::equal(record.ids.first(length), prompt.ids.first(length)));
      EXPECT_GT(record.ids.size(), length);
      EXPECT_LE(record.ids.size(), length + 9);
    }
  }
  EXPECT_NE(chosen.info().content, rejected.info().content);
}

TEST_F(Pairs, AreTheSameOnEveryGrid) {
  succeed(pairs("--output=alone --prompts=8"));
  for (const char* grid : {"--dp=2", "--pp=2", "--tp=2"}) {
    const std::string folder = std::string("grid") + (grid + 2);
    succeed("$MPIRUN " + pairs(std::string(grid) + " --prompts=8 --batch=3 --output=" + folder));
    for (const char* file : {"/chosen.h5", "/rejected.h5"})
      EXPECT_EQ(open(folder + file).info().content,
                open(std::string("alone") + file).info().content)
          << grid << file;
  }
}

// A pair of one model's answers with itself: both come from the same random numbers.
TEST_F(Pairs, OfOneModelAreTwice) {
  succeed(
      "$FATHOM pairs --model=student --teacher=student --tokens=tokens.h5 --prompts=5 --max-new=6 "
      "--output=twice");
  EXPECT_EQ(open("twice/chosen.h5").info().content, open("twice/rejected.h5").info().content);
}

TEST_F(Pairs, AreTrainedOn) {
  succeed(pairs("--output=train"));
  std::vector<double> losses;
  for (const char* grid : {"alone", "dp", "pp"}) {
    const bool spread = std::string(grid) != "alone";
    const std::string run = std::string("run_") + grid;
    succeed((spread ? "$MPIRUN " : "") +
            train("--distill.pairs=train --run.dir=" + run +
                  (spread ? " --grid." + std::string(grid) + "=2" : "")));
    std::ifstream file(*files_ / (run + "/metrics.jsonl"));
    std::string line;
    ASSERT_TRUE(std::getline(file, line) && std::getline(file, line));
    const auto step = nlohmann::json::parse(line);
    losses.push_back(step.at("loss"));
    EXPECT_TRUE(step.at("parts").contains("skew_kl"));
    EXPECT_TRUE(step.at("parts").contains("skew_reverse_kl"));
    EXPECT_FALSE(step.at("parts").contains("ce"));
    EXPECT_NEAR(losses.back(), losses.front(), 1e-5 * losses.front()) << grid;
  }
}

TEST_F(Pairs, BadOnesAreRefused) {
  succeed(pairs("--output=good"));
  expect_refused(in_folder(pairs("--output=good")), 4, "good/chosen.h5 is there already");
  expect_refused(in_folder(pairs("")), 2, "--output=<folder> is needed");
  expect_refused(in_folder(pairs("--output=tokens.h5/pairs")), 4, "tokens.h5/pairs/chosen.h5",
                 "no folder");
  expect_refused(in_folder(train("--run.dir=a --distill.pairs=none")), 4, "none/chosen.h5");
  expect_refused(in_folder(train("--run.dir=a")), 2, "distill.pairs", "fathom pairs wrote");
  expect_refused(in_folder(train("--run.dir=a --distill.pairs=good --data.train=tokens.h5")), 2,
                 "leave data.train empty");
  fs::create_directory(*files_ / "bad");
  fs::copy_file(*files_ / "good/chosen.h5", *files_ / "bad/chosen.h5");
  testing::write_tokens(*files_ / "bad/rejected.h5",
                        static_cast<int>(open("good/chosen.h5").records()), 2, 40, 503, 4);
  expect_refused(in_folder(train("--run.dir=a --distill.pairs=bad")), 3, "the prompts of record",
                 "two answers to one prompt");
}

}  // namespace
}  // namespace fathom::launch
