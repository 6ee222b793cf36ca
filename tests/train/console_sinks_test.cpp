#include "train/metrics/console_sinks.h"

#include <gtest/gtest.h>
#include <limits>
#include <sstream>

#include "tests/train/example_metrics.h"
#include "train/metrics/format.h"

namespace fathom::train {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Format, Numbers) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(-123456), "-123,456");
  EXPECT_EQ(format_count(1234567890), "1,234,567,890");
  EXPECT_EQ(format_bytes(512 << 20), "512 MiB");
  EXPECT_EQ(format_bytes(std::int64_t{5} << 29), "2.5 GiB");
  EXPECT_EQ(format_fixed(2.34567, 4), "2.3457");
  EXPECT_EQ(format_scientific(1.25e-5, 2), "1.25e-05");
  EXPECT_EQ(format_fixed(std::numeric_limits<double>::quiet_NaN(), 4), "nan");
}

TEST(Format, Durations) {
  EXPECT_EQ(format_duration(7.4), "0:07");
  EXPECT_EQ(format_duration(754), "12:34");
  EXPECT_EQ(format_duration(3 * 3600 + 121), "3:02:01");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
}

TEST(Pace, ForgetsTheFirstStepAndFollowsTheLater) {
  Pace pace;
  EXPECT_EQ(pace.remaining(10), 0.0);
  pace.add(30.0);
  EXPECT_EQ(pace.remaining(10), 300.0);
  pace.add(2.0);
  EXPECT_EQ(pace.remaining(10), 20.0);
  pace.add(3.0);
  EXPECT_NEAR(pace.remaining(10), 21.0, 1e-12);
}

TEST(ProgressText, HoldsEverythingInOneLine) {
  EXPECT_EQ(progress_text(example_step(20), 160),
            "step 20/100  loss 9.0000  10,240 tok/s  71% of peak  3.0 GiB  ETA 2:40");
  StepMetrics unknown_peak = example_step(20);
  unknown_peak.peak_share.reset();
  EXPECT_EQ(progress_text(unknown_peak, 160).find("peak"), std::string::npos);
  StepMetrics on_policy = example_step(20);
  on_policy.remark = "own text 50%";
  EXPECT_EQ(progress_text(on_policy, 160), progress_text(example_step(20), 160) + "  own text 50%");
}

TEST(LiveProgress, PaintsRarelyButAlwaysTheLastStep) {
  std::ostringstream out;
  Logger log(out);
  LiveProgress progress(log);
  for (int step = 1; step <= 100; ++step) progress.step(example_step(step));
  const std::string text = out.str();
  EXPECT_NE(text.find("step 1/100"), std::string::npos);
  EXPECT_EQ(text.find("step 2/100"), std::string::npos);
  EXPECT_NE(text.find("step 100/100"), std::string::npos);
  EXPECT_TRUE(text.ends_with("ETA 0:00\n"));
}

TEST(LiveProgress, AnEvaluationStaysAboveTheLine) {
  std::ostringstream out;
  Logger log(out);
  {
    LiveProgress progress(log);
    progress.step(example_step(1));
    progress.evaluation(example_evaluation(1));
  }
  EXPECT_NE(out.str().find("\r\x1b[Keval after step 1: loss 2.3100  perplexity 10.07  accuracy "
                           "51.2%  (20,480 tokens, 0:03)\n"),
            std::string::npos);
  EXPECT_TRUE(out.str().ends_with("\n"));
}

TEST(ColumnLog, PrintsTheFirstEveryNthAndTheLast) {
  std::ostringstream out;
  Logger log(out);
  ColumnLog columns(log, 40);
  for (int step = 1; step <= 100; ++step) columns.step(example_step(step));
  const auto lines = lines_of(out.str());
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0],
            "      step      loss        ce        kl  grad norm        lr    tokens     tok/s"
            "      peak    memory       ETA");
  EXPECT_EQ(lines[1],
            "     1/100    4.2500    1.5000    2.5000     0.7500  1.00e-04    20,480    10,240"
            "       71%   3.0 GiB      3:18");
  EXPECT_NE(lines[2].find(" 40/100"), std::string::npos);
  EXPECT_NE(lines[3].find(" 80/100"), std::string::npos);
  EXPECT_NE(lines[4].find("100/100"), std::string::npos);
  EXPECT_EQ(out.str().find('\x1b'), std::string::npos);
}

TEST(ColumnLog, RepeatsItsHeading) {
  std::ostringstream out;
  Logger log(out);
  ColumnLog columns(log, 1);
  for (int step = 1; step <= 100; ++step) columns.step(example_step(step));
  int headings = 0;
  for (const std::string& line : lines_of(out.str())) headings += line.ends_with("ETA");
  EXPECT_EQ(headings, 3);
}

}  // namespace
}  // namespace fathom::train
