#include <filesystem>
#include <gtest/gtest.h>

#include "launch/options/ini.h"
#include "launch/options/train.h"
#include "tests/support/expect_error.h"

namespace fathom::options {
namespace {

using testing::expect_error;

train::TrainConfig read(const std::string& text) {
  return config_from_text(text, "r.ini");
}

TEST(Recipe, ReadsSectionsCommentsAndBlanks) {
  const auto config = read(
      "# a recipe\n"
      "\n"
      "[optim]\n"
      "  lr = 3e-5   # small\n"
      "decay=all\r\n"
      "[grid] # two stages\n"
      "pp = 2\n"
      "layers = 3, 2\n"
      "[data]\n"
      "eval =\n");
  EXPECT_EQ(config.optim.lr, 3e-5);
  EXPECT_EQ(config.optim.decay, train::Decay::all);
  EXPECT_EQ(config.grid.pp, 2);
  EXPECT_EQ(config.grid.layers, (std::vector<int>{3, 2}));
  EXPECT_EQ(config.data.eval, "");
}

TEST(Recipe, NamesTheLineOfABadValue) {
  expect_error(
      ErrorKind::config, [] { read("# one\n[optim]\n\nlr = fast\n"); }, "optim.lr = 'fast'",
      "r.ini:4", "number greater than 0");
  expect_error(
      ErrorKind::config, [] { read("[schedule]\nkind = cos\n"); }, "schedule.kind = 'cos'",
      "constant|linear|cosine|wsd");
}

TEST(Recipe, NamesTheLineOfAnUnknownKey) {
  expect_error(
      ErrorKind::config, [] { read("[optim]\nlr = 1\nweight_deacy = 0\n"); },
      "'optim.weight_deacy'", "r.ini:3", "'optim.weight_decay'");
  expect_error(
      ErrorKind::config, [] { read("[optim]\nwarmup_steps = 4\n"); }, "'optim.warmup_steps'",
      "'schedule.warmup_steps'");
  expect_error(
      ErrorKind::config, [] { read("steps = 4\n"); }, "unknown option 'steps'", "r.ini:1",
      "'run.steps'");
}

TEST(Recipe, NamesBothLinesOfADoubleKey) {
  expect_error(
      ErrorKind::config, [] { read("[optim]\nlr = 1\n[run]\n[optim]\nlr = 2\n"); },
      "optim.lr is given twice", "r.ini:2", "r.ini:5");
}

TEST(Recipe, RefusesALineThatIsNeitherForm) {
  expect_error(
      ErrorKind::config, [] { read("[optim]\nlr 1\n"); }, "r.ini:2", "'lr 1'", "key = value");
  expect_error(
      ErrorKind::config, [] { read("[run]\ndir = a#b\n"); }, "r.ini:2", "'#' starts a comment");
}

TEST(Recipe, RefusesAFileThatIsNotThere) {
  train::TrainConfig config;
  OptionTable table;
  describe_train(table, config);
  expect_error(
      ErrorKind::config, [&] { read_ini_file(table, "/no/such.ini"); }, "'/no/such.ini'",
      "No such file");
  expect_error(
      ErrorKind::config,
      [&] { read_ini_file(table, std::filesystem::temp_directory_path().string()); },
      "cannot read the recipe");
}

/// A value of each option that differs from its default, made from what the option accepts.
std::string other_value(const Option& option) {
  const std::string& accepts = option.accepts;
  if (accepts == "true|false") return option.default_text == "true" ? "false" : "true";
  if (accepts.starts_with("none|all|")) return "model.embed*,*norm*";
  if (accepts.starts_with("list of layers")) return "every:3";
  if (accepts.starts_with("list of")) return "2,3";
  if (accepts.starts_with("integer")) return option.default_text == "7" ? "8" : "7";
  if (accepts.starts_with("number")) return "0.3333333333333333";
  if (accepts.find('|') != std::string::npos) {
    const std::string last = accepts.substr(accepts.rfind('|') + 1);
    return last == option.default_text ? accepts.substr(0, accepts.find('|')) : last;
  }
  return "some/where with blanks";
}

TEST(Recipe, EveryOptionSurvivesTheRoundTrip) {
  train::TrainConfig config;
  OptionTable table;
  describe_train(table, config);
  const std::string defaults = to_ini(table);
  for (const Option& option : table.options())
    table.assign(option.name, other_value(option), "command line");
  const std::string text = to_ini(table);
  EXPECT_EQ(to_text(config), text);
  EXPECT_EQ(to_text(read(text)), text);
  for (const Change& change : changes(read(defaults), config)) EXPECT_NE(change.was, change.is);
  EXPECT_EQ(changes(read(defaults), config).size(), table.options().size());
  EXPECT_EQ(to_text(train::TrainConfig{}), defaults);
}

TEST(Recipe, EveryOptionIsExplained) {
  train::TrainConfig config;
  OptionTable table;
  describe_train(table, config);
  for (const Option& option : table.options()) {
    EXPECT_TRUE(option.help.ends_with('.')) << option.name;
    EXPECT_FALSE(option.accepts.empty()) << option.name;
    // The default is itself accepted, so a printed recipe can always be read.
    EXPECT_TRUE(option.assign(option.default_text)) << option.name;
  }
}

}  // namespace
}  // namespace fathom::options
