// Every recipe in configs/, and what its README says to change for other models, as --dry-run
// takes it.

#include <filesystem>
#include <gtest/gtest.h>
#include <sstream>

#include "core/files.h"
#include "tests/launch/program.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;
const fs::path kSource = FATHOM_SOURCE_DIR;

class Recipes : public ::testing::Test {
 protected:
  /// SmolLM2-135M's config, all of it that a dry run reads.
  void SetUp() override {
    files::write_text_atomically(smollm2_.path() / "config.json",
                                 testing::config_json({.layers = 30,
                                                       .hidden = 576,
                                                       .heads = 9,
                                                       .kv_heads = 3,
                                                       .ffn = 1536,
                                                       .vocab = 49152,
                                                       .positions = 8192}));
  }

  /// Recipes of models that are fetched name folders that are not there yet.
  std::string fetched(const std::string& recipe) const {
    const std::string text = files::read_text(kSource / "configs" / recipe);
    std::string options;
    for (const auto& [section, option] : {std::pair("[model]\npath = data/", " --model.path="),
                                          std::pair("[teacher]\npath = data/", " --teacher.path=")})
      if (text.find(section) != text.npos) options += option + smollm2_.path().string();
    return options;
  }

  static std::string dry_run(const std::string& options) {
    const Outcome outcome =
        shell("cd " + kSource.string() + "\n$FATHOM train --dry-run " + options);
    EXPECT_EQ(outcome.code, 0) << options << "\n" << outcome.text;
    EXPECT_TRUE(outcome.has("memory of a rank")) << options << "\n" << outcome.text;
    return outcome.text;
  }

  testing::TemporaryDirectory smollm2_;
};

TEST_F(Recipes, EachIsAccepted) {
  int recipes = 0;
  for (const auto& entry : fs::directory_iterator(kSource / "configs")) {
    if (entry.path().extension() != ".ini") continue;
    const std::string name = entry.path().filename().string();
    dry_run("configs/" + name + fetched(name));
    ++recipes;
  }
  EXPECT_GE(recipes, 14);
}

TEST_F(Recipes, OfTuningFitOtherModels) {
  const std::string models = " --model.path=configs/models/";
  for (const std::string method : {"lora", "mode", "control", "moc"}) {
    const std::string recipe = "configs/tune-" + method + ".ini";
    const std::string rank = method == "control" ? "--adapter.rank=64" : "--moc.rank=64";
    const std::string smaller =
        method == "control" ? "--batch.micro_batches=6 " : "--batch.micro_batch=3 ";
    const bool controls = method == "control" || method == "moc";
    dry_run(recipe + models + "llama3-8b --optim.lr=1e-4 " +
            (controls ? smaller + rank + " --run.steps=85150" : ""));
    dry_run(recipe + models + "mistral-7b");
    dry_run(recipe + models + "qwen2.5-14b");
  }
}

/// MiB of gradients of all stages, which is what is trained, from a dry run's table of memory.
double gradients(const std::string& text) {
  std::istringstream table(text.substr(text.find("\nstage ")));
  std::string line;
  std::getline(table, line);
  std::getline(table, line);
  double sum = 0;
  while (std::getline(table, line)) {
    std::istringstream row(line);
    double stage = 0, weights = 0, mebibytes = 0;
    if (!(row >> stage >> weights >> mebibytes)) break;
    sum += mebibytes;
  }
  return sum;
}

// LoRA of rank 8 on five linear layers has as many parameters as controls of rank 24 on two sites.
TEST_F(Recipes, OfSmolLM2TrainAsMuchWithLoraAndControl) {
  const auto trained = [&](const std::string& method) {
    const std::string name = "tune-smollm2-" + method + ".ini";
    return gradients(dry_run("configs/" + name + fetched(name)));
  };
  EXPECT_NEAR(trained("lora"), 30 * 2 * 24 * 2 * 576 * 4.0 / (1 << 20), 0.1);  // a decimal a stage
  EXPECT_NEAR(trained("control"), trained("lora"), 0.01);
}

}  // namespace
}  // namespace fathom::launch
