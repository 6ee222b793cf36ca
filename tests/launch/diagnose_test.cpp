// `fathom diagnose moc` as a user runs it, on runs that were just trained.

#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "tests/launch/program.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class DiagnoseMoc : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::TemporaryDirectory();
    for (const auto& [name, layers] : {std::pair("model", 3), std::pair("deeper", 4)}) {
      testing::write_model(*files_ / name,
                           {.layers = layers, .hidden = 16, .heads = 2, .ffn = 24, .vocab = 1024},
                           7);
      testing::copy_shakespeare(*files_ / name);
    }
    testing::write_tokens(*files_ / "tokens.h5", 12, 4, 20, 503, 3, testing::shakespeare());
    const std::string moc = "--moc.enabled=true --moc.rank=3 --moc.top_k=2 --moc.alpha=0.6 ";
    train("", "moc", moc + "--run.save_every=2");
    train("$MPIRUN ", "stages", moc + "--grid.pp=2");
    train("", "parallel", "--adapter.kind=parallel_control --adapter.rank=3");
    train("", "lora", "--adapter.kind=lora --adapter.rank=3");
    train("", "deep", moc + "--model.path=deeper");
  }
  static void TearDownTestSuite() { delete files_; }

  static Outcome in_folder(const std::string& command) {
    return shell("cd " + files_->path().string() + "\n" + command, 60);
  }
  static void train(const std::string& launcher, const std::string& name, const std::string& more) {
    const Outcome outcome =
        in_folder(launcher + "$FATHOM train --model.path=model --data.train=tokens.h5 " +
                  "--batch.micro_batch=3 --batch.micro_batches=1 --run.steps=4 --optim.lr=0.05 " +
                  "--log.tensorboard=false --run.dir=" + name + " " + more);
    ASSERT_EQ(outcome.code, 0) << outcome.text;
  }
  /// Runs the command, whose exit code must be what the report says.
  static json diagnose(const std::string& words) {
    const Outcome outcome = in_folder("$FATHOM diagnose moc --output=out " + words);
    const json report = json::parse(files::read_text(*files_ / "out/report.json"));
    bool all_hold = true;
    for (const json& check : report.at("checks")) all_hold = all_hold && check.at("holds");
    EXPECT_EQ(outcome.code, all_hold ? 0 : 1) << outcome.text;
    EXPECT_EQ(outcome.has("FAILS"), !all_hold) << outcome.text;
    return report;
  }
  static bool holds(const json& report, const std::string& name) {
    for (const json& check : report.at("checks"))
      if (check.at("name") == name) return check.at("holds");
    ADD_FAILURE() << "no check " << name;
    return false;
  }

  inline static testing::TemporaryDirectory* files_ = nullptr;
};

TEST_F(DiagnoseMoc, WithoutTextThereAreNormsAlone) {
  const json report = diagnose("moc");
  EXPECT_EQ(report.at("method"), "mixture of control");
  ASSERT_EQ(report.at("norms").size(), 6u);
  for (const json& row : report.at("norms")) {
    EXPECT_GT(row.at("operator_norm").get<double>(), 0);
    EXPECT_GE(row.at("stable_rank").get<double>(), 1);
    EXPECT_LE(row.at("stable_rank").get<double>(), 3);
  }
  EXPECT_FALSE(report.contains("growth"));
  EXPECT_TRUE(report.at("checks").empty());
  EXPECT_TRUE(fs::exists(*files_ / "out/norms.csv"));
  EXPECT_TRUE(fs::exists(*files_ / "out/report.svg"));
}

// The same samples, the same run: the grid that wrote the checkpoint says nothing.
TEST_F(DiagnoseMoc, ReadsACheckpointOfAnyGrid) {
  const json one = diagnose("moc").at("norms"), two = diagnose("stages").at("norms");
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double norm = one[i].at("operator_norm");
    EXPECT_NEAR(two[i].at("operator_norm").get<double>(), norm, 2e-3 * norm) << i;
  }
}

TEST_F(DiagnoseMoc, OnRecordsEverythingIsReported) {
  const json report =
      diagnose("moc --data=tokens.h5 --records=4 --probes=4 --jacobian-tokens=9 --against=lora");
  // Records of 4, 5, ... ids: whole ones while they fit.
  EXPECT_EQ(report.at("jacobian_tokens"), 7);
  for (const char* name :
       {"growth", "control", "target_error", "site_jacobian", "jacobian_gain", "jacobian_norm"})
    EXPECT_TRUE(holds(report, name)) << name;
  for (const char* table : {"norms", "growth", "targets", "jacobian", "routing"})
    EXPECT_EQ(report.at(table).size(), 6u) << table;
  EXPECT_EQ(report.at("usage").size(), 18u);
  EXPECT_TRUE(report.at("routing")[0].at("flips").is_null()) << "LoRA chooses nothing";
  EXPECT_GE(report.at("balance").get<double>(), 1 - 1e-6);
}

TEST_F(DiagnoseMoc, TwoCheckpointsOfARunAreCompared) {
  const json report = diagnose("moc --text='To be, or not' --probes=0 --against=moc/step_00000002");
  EXPECT_FALSE(report.contains("jacobian"));
  EXPECT_TRUE(holds(report, "target_error"));
  for (const json& row : report.at("routing")) {
    EXPECT_GE(row.at("flips").get<double>(), 0);
    EXPECT_LE(row.at("flips").get<double>(), 1);
  }
  const json itself = diagnose("moc --text='To be, or not' --probes=0 --against=moc");
  for (const json& row : itself.at("routing")) EXPECT_EQ(row.at("flips"), 0.0);
}

TEST_F(DiagnoseMoc, ParallelControlHasTheSameReportWithoutRouting) {
  const json report = diagnose("parallel --text='Speak!' --probes=2");
  EXPECT_EQ(report.at("method"), "Parallel Control");
  EXPECT_FALSE(report.contains("routing"));
  EXPECT_TRUE(holds(report, "growth"));
  EXPECT_TRUE(holds(report, "site_jacobian"));
  for (const json& row : report.at("growth"))
    EXPECT_EQ(row.at("growth_factor"), row.at("growth_factor_parallel"));
}

TEST_F(DiagnoseMoc, RefusesWhatItCannotDo) {
  const auto refused = [](const std::string& command, int code, const auto&... parts) {
    expect_refused(in_folder(command), code, parts...);
  };
  const std::string moc = "$FATHOM diagnose moc --output=no ";
  refused("$FATHOM diagnose mox", 2, "'mox'", "'moc'");
  refused(moc + "lora", 2, "neither mixture of control nor Parallel Control", "lora");
  refused(moc + "nowhere", 4, "nowhere");
  refused(moc + "moc --against=lora", 2, "--against", "--text");
  refused(moc + "moc --text=a --data=b.h5", 2, "exclude each other");
  refused(moc + "moc --text=a --probes=1", 2, "--probes=1");
  refused(moc + "moc --text=a --against=deep", 2, "--against deep", "4 layers");
  refused(moc + "moc --data=tokens.h5 --context=99", 2, "--context 99", "64");
  refused("$MPIRUN " + moc + "moc", 2, "2 ranks", "runs on one");
  EXPECT_FALSE(fs::exists(*files_ / "no"));
}

}  // namespace
}  // namespace fathom::launch
