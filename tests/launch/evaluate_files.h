#pragma once

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/files.h"
#include "tests/launch/program.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {

/// A folder with a small model that has random weights and the tokenizer of the samples, in which
/// `fathom evaluate` runs.
class EvaluateFiles : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::TemporaryDirectory();
    write_model("model", nlohmann::json::object());
  }
  static void TearDownTestSuite() { delete files_; }

  static void write_model(const std::string& name, const nlohmann::json& changes,
                          int vocab = 1024) {
    const std::filesystem::path folder = *files_ / name;
    testing::write_model(folder, {.vocab = vocab}, 7);
    testing::copy_shakespeare(folder);
    auto config = nlohmann::json::parse(files::read_text(folder / "config.json"));
    config.update(changes);
    files::write_text_atomically(folder / "config.json", config.dump());
  }

  static Outcome in_folder(const std::string& command) {
    return shell("cd " + files_->path().string() + "\n" + command);
  }
  /// What the command writes to out.json.
  static nlohmann::json succeed(const std::string& command) {
    const Outcome outcome = in_folder(command);
    EXPECT_EQ(outcome.code, 0) << command << "\n" << outcome.text;
    return nlohmann::json::parse(files::read_text(*files_ / "out.json"));
  }
  static std::vector<nlohmann::json> lines_of(const std::string& name) {
    std::ifstream file(*files_ / name);
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  inline static testing::TemporaryDirectory* files_ = nullptr;
};

}  // namespace fathom::launch
