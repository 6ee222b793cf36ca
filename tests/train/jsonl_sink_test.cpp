#include "train/metrics/jsonl_sink.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tests/train/example_metrics.h"
#include "train/metrics/metric_sinks.h"

namespace fathom::train {
namespace {

using testing::expect_error;
using testing::TemporaryDirectory;

std::vector<nlohmann::json> read_lines(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

void write_steps(const std::filesystem::path& path, std::optional<std::int64_t> resumed, int first,
                 int last) {
  JsonlSink sink(path, resumed);
  for (int step = first; step <= last; ++step) {
    sink.step(example_step(step));
    if (step % 5 == 0) sink.evaluation(example_evaluation(step));
  }
}

TEST(JsonlSink, WritesEveryNumberExactly) {
  const TemporaryDirectory folder;
  const auto path = folder / "metrics.jsonl";
  StepMetrics m = example_step(3);
  m.lr = 1.0 / 3;
  m.grad_norm = std::nan("");
  m.more = {{"left_out", 2}};
  JsonlSink sink(path, std::nullopt);
  sink.step(m);
  sink.evaluation(example_evaluation(3));
  const auto lines = read_lines(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["kind"], "step");
  EXPECT_EQ(lines[0]["step"], 3);
  EXPECT_EQ(lines[0]["lr"].get<double>(), 1.0 / 3);
  EXPECT_TRUE(lines[0]["grad_norm"].is_null());
  EXPECT_EQ(lines[0]["parts"], nlohmann::json({{"ce", 1.5}, {"kl", 2.5}}));
  EXPECT_EQ(lines[0]["more"], nlohmann::json({{"left_out", 2.0}}));
  EXPECT_EQ(lines[0]["peak_share"], 0.714);
  EXPECT_EQ(lines[1]["kind"], "eval");
  EXPECT_EQ(lines[1]["perplexity"], 10.0744);
}

TEST(JsonlSink, AResumedRunLeavesTheFileOfAnUnbrokenOne) {
  const TemporaryDirectory folder;
  write_steps(folder / "straight", std::nullopt, 1, 20);
  write_steps(folder / "resumed", std::nullopt, 1, 13);
  write_steps(folder / "resumed", 10, 11, 20);
  EXPECT_EQ(files::read_text(folder / "resumed"), files::read_text(folder / "straight"));
}

TEST(JsonlSink, DropsALineThatWasCutOff) {
  const TemporaryDirectory folder;
  const auto path = folder / "metrics.jsonl";
  write_steps(path, std::nullopt, 1, 4);
  const std::string whole = files::read_text(path);
  std::ofstream(path, std::ios::app) << R"({"kind":"step","st)";
  { const JsonlSink sink(path, 4); }
  EXPECT_EQ(files::read_text(path), whole);
}

TEST(JsonlSink, ANewRunStartsAnew) {
  const TemporaryDirectory folder;
  write_steps(folder / "metrics", std::nullopt, 1, 9);
  write_steps(folder / "metrics", std::nullopt, 1, 2);
  EXPECT_EQ(read_lines(folder / "metrics").size(), 2u);
  write_steps(folder / "absent", 10, 11, 12);
  EXPECT_EQ(read_lines(folder / "absent").size(), 2u);
}

TEST(JsonlSink, RefusesAFileThatIsNotMetrics) {
  const TemporaryDirectory folder;
  const auto path = folder / "metrics.jsonl";
  std::ofstream(path) << "{\"step\": 1}\n[1, 2]\n";
  expect_error(
      ErrorKind::data, [&] { JsonlSink(path, 5); }, path.string() + ":2");
}

TEST(JsonlSink, SaysWhenItCannotWrite) {
  const TemporaryDirectory folder;
  expect_error(
      ErrorKind::io, [&] { JsonlSink(folder / "no" / "metrics.jsonl", std::nullopt); },
      "metrics.jsonl", "No such file");
  if (!std::filesystem::exists("/dev/full")) GTEST_FAIL() << "/dev/full is needed";
  JsonlSink full("/dev/full", std::nullopt);
  expect_error(
      ErrorKind::io, [&] { full.step(example_step(1)); }, "/dev/full", "No space left");
}

TEST(MetricSinks, FillTheRunFolder) {
  const TemporaryDirectory folder;
  RunConfig run;
  run.dir = (folder / "run").string();
  run.quiet = true;
  MetricSinks sinks(run, LogConfig{}, std::nullopt);
  sinks.step(example_step(1));
  sinks.evaluation(example_evaluation(1));
  EXPECT_EQ(read_lines(folder / "run" / "metrics.jsonl").size(), 2u);
  EXPECT_FALSE(std::filesystem::is_empty(folder / "run" / "tensorboard"));

  run.dir = (folder / "bare").string();
  MetricSinks({run}, {.jsonl = false, .tensorboard = false}, std::nullopt).step(example_step(1));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "bare"));
}

}  // namespace
}  // namespace fathom::train
