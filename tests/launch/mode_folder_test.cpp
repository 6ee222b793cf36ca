// A model whose late layers vote, exported and read again by every command that takes a model.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "tests/launch/program.h"
#include "tests/support/run_metrics.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class ModeFolders : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::TemporaryDirectory();
    testing::write_model(*files_ / "model", {}, 7);
    testing::write_model(*files_ / "deeper", {.layers = 5}, 7);
    testing::write_model(*files_ / "other", {}, 8);
    testing::write_model(*files_ / "wider", {.hidden = 96, .ffn = 152}, 7);
    testing::write_tokens(*files_ / "tokens.h5", 40, 2, 20, 503, 3);
    succeed("$FATHOM train " + train("run", "--adapter.kind=lora --mode.enabled=true"));
    succeed("$FATHOM checkpoint export run --output=whole");
    succeed("$FATHOM checkpoint export run --output=adapter --adapter=peft");
  }
  static void TearDownTestSuite() { delete files_; }

  static std::string train(const std::string& run, const std::string& more) {
    return "--run.dir=" + run +
           " --run.steps=4 --model.path=model --data.train=tokens.h5 --optim.lr=0.03 "
           "--batch.micro_batches=2 --run.quiet=true " +
           more;
  }
  static Outcome in_folder(const std::string& command) {
    return shell("cd " + files_->path().string() + "\n" + command);
  }
  static void succeed(const std::string& command) {
    const Outcome outcome = in_folder(command);
    EXPECT_EQ(outcome.code, 0) << command << "\n" << outcome.text;
  }
  static double loss(const std::string& source) {
    succeed("$FATHOM evaluate --data=tokens.h5 --output=out.json " + source);
    return json::parse(files::read_text(*files_ / "out.json")).at("loss");
  }

  inline static testing::TemporaryDirectory* files_ = nullptr;
};

TEST_F(ModeFolders, AnExportVotesAsItsCheckpointDoes) {
  const double trained = loss("--checkpoint=run");
  const double tolerance = 1e-5 * trained;
  EXPECT_NEAR(loss("--model=whole"), trained, tolerance);
  EXPECT_NEAR(loss("--model=model --adapter=adapter"), trained, tolerance);
  succeed("$MPIRUN $FATHOM evaluate --pp=2 --data=tokens.h5 --output=out.json --model=whole");
  EXPECT_NEAR(json::parse(files::read_text(*files_ / "out.json")).at("loss"), trained, tolerance);

  fs::copy(*files_ / "whole", *files_ / "alone");
  fs::remove(*files_ / "alone/mode.json");
  EXPECT_GT(std::abs(loss("--model=alone") - trained), 10 * tolerance) << "the last layer alone";
}

TEST_F(ModeFolders, TrainingGoesOnFromOne) {
  const std::string votes =
      "--mode.enabled=true --run.steps=1 --optim.lr=1e-9 --data.eval=tokens.h5";
  const double trained = loss("--checkpoint=run");
  succeed("$FATHOM train " + train("more", votes + " --model.path=whole"));
  EXPECT_NEAR(loss("--checkpoint=more"), trained, 1e-4 * trained);

  expect_refused(in_folder("$FATHOM train " + train("silent", "--model.path=whole")), 2, "whole",
                 "late layers of this model vote", "mode.enabled = true");
  expect_refused(in_folder("$FATHOM train " + train("silent",
                                                    "--model.path=whole --mode.enabled=true "
                                                    "--mode.k=2")),
                 2, "\"k\":3", "\"k\":2");
  expect_refused(
      in_folder("$FATHOM train " + train("silent", "--teacher.path=whole --loss.kd_weight=1")), 2,
      "teacher.path = whole", "through its last layer");
}

TEST_F(ModeFolders, DiagnosisHearsWhatEvaluationHears) {
  const auto diagnose = [](const std::string& more) {
    succeed("$FATHOM diagnose depth --data=tokens.h5 --output=report " + more);
    return json::parse(files::read_text(*files_ / "report/report.json"));
  };
  const json voting = diagnose("--model=whole");
  EXPECT_EQ(voting.at("layers").size(), 4u) << "three and their mixture";
  const double trained = loss("--model=whole");
  EXPECT_NEAR(voting.at("loss"), trained, 1e-5 * trained);

  const double plain = loss("--model=model");
  const json lens = diagnose("--model=model --layers=4");
  EXPECT_NEAR(lens.at("layers").at(3).at("loss"), plain, 1e-5 * plain);
  succeed(
      "$MPIRUN $FATHOM diagnose depth --pp=2 --model=model --layers=4 --data=tokens.h5 "
      "--output=report");
  const json spread = json::parse(files::read_text(*files_ / "report/report.json"));
  for (std::size_t layer = 0; layer < 4; ++layer) {
    const double expected = lens.at("layers").at(layer).at("loss");
    EXPECT_NEAR(spread.at("layers").at(layer).at("loss"), expected, 1e-5 * expected);
  }
  EXPECT_TRUE(fs::exists(*files_ / "report/report.svg"));
  EXPECT_TRUE(fs::exists(*files_ / "report/examples_solved.csv"));

  expect_refused(in_folder("$FATHOM diagnose depth --model=whole --layers=2 --data=tokens.h5 "
                           "--output=report"),
                 2, "--layers 2", "3 layers", "vote");
  expect_refused(in_folder("$FATHOM diagnose depth --model=model --layers=5 --data=tokens.h5 "
                           "--output=report"),
                 2, "--layers 5", "give 2 to 4");
  const Outcome post = in_folder("$FATHOM diagnose depth --model=" FATHOM_TEST_DATA
                                 "/golden/models/opt-postln --data=tokens.h5 --output=report");
  expect_refused(post, 2, "opt-postln", "cannot be heard one by one");
  EXPECT_FALSE(post.has("mode.")) << "keys of a recipe: " << post.text;
}

TEST_F(ModeFolders, AnotherBackboneIsRefused) {
  for (const char* other : {"deeper", "wider"}) {
    const fs::path folder = *files_ / (std::string(other) + "_votes");
    fs::copy(*files_ / other, folder);
    for (const char* file : {"mode.json", "mode.safetensors"})
      fs::copy_file(*files_ / "whole" / file, folder / file);
    expect_refused(in_folder("$FATHOM evaluate --data=tokens.h5 --model=" + folder.string()), 3,
                   "mode.safetensors", "belong to another model",
                   other[0] == 'd' ? "5 layers" : "width 96");
  }
}

// Shapes alone do not tell a backbone: neither a whole model's nor an adapter's votes go with
// weights that they were not trained on.
TEST_F(ModeFolders, AnotherBackboneOfTheSameShapesIsRefused) {
  const fs::path folder = *files_ / "other_votes";
  fs::copy(*files_ / "other", folder);
  for (const char* file : {"mode.json", "mode.safetensors"})
    fs::copy_file(*files_ / "whole" / file, folder / file);
  const std::string evaluate = "$FATHOM evaluate --data=tokens.h5 --model=";
  expect_refused(in_folder(evaluate + folder.string()), 3, "other_votes/mode.json",
                 "trained on another model", "llama of 4 layers, width 64, 503 entries");
  expect_refused(in_folder(evaluate + "other --adapter=adapter"), 3, "adapter/mode.json",
                 "trained on another model");
  expect_refused(in_folder("$FATHOM train " +
                           train("silent", "--mode.enabled=true --model.path=" + folder.string())),
                 3, "other_votes/mode.json", "trained on another model");

  // The same weights in another storage are the same backbone.
  succeed("$FATHOM checkpoint export run --output=half --dtype=bf16");
  const auto backbone = [](const char* name) {
    return json::parse(files::read_text(*files_ / name / "mode.json")).at("backbone");
  };
  EXPECT_EQ(backbone("half"), backbone("whole"));
  EXPECT_EQ(backbone("adapter"), backbone("whole")) << "LoRA changes no matrix of the MLP here";
  EXPECT_NEAR(loss("--model=half"), loss("--model=whole"), 0.02 * loss("--model=whole"));
  json old = json::parse(files::read_text(folder / "mode.json"));
  old.erase("backbone");
  files::write_text_atomically(folder / "mode.json", old.dump());
  const Outcome warned = in_folder(evaluate + folder.string() + " --output=out.json");
  EXPECT_EQ(warned.code, 0) << warned.text;
  EXPECT_TRUE(warned.has("only their shapes were compared")) << warned.text;
}

// What lost its vote in training votes nowhere: not in the checkpoint, its export, or their exits.
TEST_F(ModeFolders, AShrunkMixtureIsReadAsItWasLeft) {
  succeed("$FATHOM train " + train("shrunk",
                                   "--mode.enabled=true --mode.k=4 --mode.shrink_below=0.2 "
                                   "--mode.shrink_steps=1 --data.eval=tokens.h5"));
  const auto last = testing::metrics_of(*files_ / "shrunk", "eval").back();
  const double trained = last.at("loss");
  EXPECT_NEAR(loss("--checkpoint=shrunk"), trained, 1e-5 * trained);
  succeed("$FATHOM checkpoint export shrunk --output=shrunk_whole");
  EXPECT_EQ(json::parse(files::read_text(*files_ / "shrunk_whole/mode.json")).at("k"), 2);
  EXPECT_NEAR(loss("--model=shrunk_whole"), trained, 1e-5 * trained);
}

TEST_F(ModeFolders, ARefusedExportLeavesNothing) {
  succeed("$FATHOM train " + train("no_adapter", "--mode.enabled=true --run.steps=1"));
  expect_refused(in_folder("$FATHOM checkpoint export no_adapter --output=nothing --adapter=peft"),
                 2, "this run trained no adapter");
  EXPECT_FALSE(fs::exists(*files_ / "nothing"));
}

}  // namespace
}  // namespace fathom::launch
