// Every recipe in configs/, and what its README says to change for other models, as --dry-run
// takes it.

#include <algorithm>
#include <filesystem>
#include <fnmatch.h>
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

  /// What --dry-run says of a recipe with some options more.
  std::string dry_run(const std::string& recipe, const std::string& options = "") const {
    const std::string file = "configs/" + recipe + ".ini";
    const Outcome outcome = shell("cd " + kSource.string() + "\n$FATHOM train --dry-run " + file +
                                  fetched(file) + " " + options);
    EXPECT_EQ(outcome.code, 0) << file << " " << options << "\n" << outcome.text;
    EXPECT_TRUE(outcome.has("memory of a rank")) << file << " " << options << "\n" << outcome.text;
    return outcome.text;
  }

 private:
  /// Recipes of models that are fetched name folders that are not there yet.
  std::string fetched(const std::string& file) const {
    const std::string text = files::read_text(kSource / file);
    std::string options;
    for (const auto& [section, option] : {std::pair("[model]\npath = data/", " --model.path="),
                                          std::pair("[teacher]\npath = data/", " --teacher.path=")})
      if (text.find(section) != text.npos) options += option + smollm2_.path().string();
    return options;
  }

  testing::TemporaryDirectory smollm2_;
};

/// A line of the README's tables of what, recipes and options.
struct Variant {
  std::string what;
  std::vector<std::string> recipes;  ///< shell patterns of file names without .ini
  std::string options;
};

/// What stands between backquotes.
std::vector<std::string> between_backquotes(const std::string& cell) {
  std::vector<std::string> words;
  for (std::size_t begin = cell.find('`'); begin != cell.npos;) {
    const std::size_t end = cell.find('`', begin + 1);
    words.push_back(cell.substr(begin + 1, end - begin - 1));
    begin = end == cell.npos ? end : cell.find('`', end + 1);
  }
  return words;
}

std::vector<Variant> variants() {
  std::istringstream lines(files::read_text(kSource / "configs/README.md"));
  std::vector<Variant> all;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| what | recipes | options |")) inside = true;
    if (!line.starts_with("|")) inside = false;
    if (!inside) continue;
    std::istringstream row(line);
    std::string before, what, names, options;
    for (std::string* cell : {&before, &what, &names, &options}) std::getline(row, *cell, '|');
    if (const auto quote = between_backquotes(options); !quote.empty())  // no heading
      all.push_back({what, between_backquotes(names), quote.front()});
  }
  return all;
}

std::vector<std::string> recipes() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kSource / "configs"))
    if (entry.path().extension() == ".ini") names.push_back(entry.path().stem().string());
  return names;
}

TEST_F(Recipes, EachIsAccepted) {
  const std::vector<std::string> all = recipes();
  for (const std::string& recipe : all) dry_run(recipe);
  EXPECT_GE(all.size(), 18u);
}

TEST_F(Recipes, AreAcceptedWithEachLineOfTheReadmesTables) {
  int lines = 0;
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.what);
    EXPECT_TRUE(variant.options.starts_with("--"));
    int fitting = 0;
    for (const std::string& recipe : recipes()) {
      const bool fits = std::ranges::any_of(variant.recipes, [&](const std::string& pattern) {
        return fnmatch(pattern.c_str(), recipe.c_str(), 0) == 0;
      });
      if (!fits) continue;
      dry_run(recipe, variant.options);
      ++fitting;
    }
    EXPECT_GT(fitting, 0) << "no recipe has such a name";
    ++lines;
  }
  EXPECT_GE(lines, 40);  // the tables are found
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
    return gradients(dry_run("tune-smollm2-" + method));
  };
  EXPECT_NEAR(trained("lora"), 30 * 2 * 24 * 2 * 576 * 4.0 / (1 << 20), 0.1);  // a decimal a stage
  EXPECT_NEAR(trained("control"), trained("lora"), 0.01);
}

}  // namespace
}  // namespace fathom::launch
