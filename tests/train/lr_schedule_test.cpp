#include "train/lr_schedule.h"

#include <array>
#include <gtest/gtest.h>

namespace fathom::train {
namespace {

constexpr std::int64_t run_steps = 100;
constexpr std::array<std::int64_t, 14> at = {0, 1, 3, 9, 10, 11, 25, 50, 77, 89, 90, 95, 99, 100};
using Factors = std::array<double, at.size()>;

void expect_factors(const ScheduleConfig& schedule, const Factors& expected, std::size_t from = 0) {
  for (std::size_t i = from; i < at.size(); ++i)
    EXPECT_NEAR(lr_factor(schedule, at[i], run_steps), expected[i], 1e-15) << "step " << at[i];
}

// The numbers are those of the functions in transformers 5.24.0, optimization.py, printed with all
// their digits: 10 warm-up steps, 100 training steps.

TEST(LrSchedule, Constant) {
  expect_factors({ScheduleKind::constant, 10, 0, 0.0},
                 {0, 0.1, 0.3, 0.9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST(LrSchedule, Linear) {
  expect_factors({ScheduleKind::linear, 10, 0, 0.0},
                 {0, 0.1, 0.3, 0.9, 1, 0.9888888888888889, 0.8333333333333334, 0.5555555555555556,
                  0.25555555555555554, 0.12222222222222222, 0.1111111111111111, 0.05555555555555555,
                  0.011111111111111112, 0});
  expect_factors({ScheduleKind::linear, 0, 0, 0.0},
                 {1, 0.99, 0.97, 0.91, 0.9, 0.89, 0.75, 0.5, 0.23, 0.11, 0.1, 0.05, 0.01, 0});
}

TEST(LrSchedule, Cosine) {
  expect_factors({ScheduleKind::cosine, 10, 0, 0.0},
                 {0, 0.1, 0.3, 0.9, 1, 0.9996954135095479, 0.9330127018922194, 0.5868240888334653,
                  0.15267081477050132, 0.03640807271660634, 0.03015368960704584,
                  0.00759612349389599, 0.00030458649045211894, 0});
  expect_factors({ScheduleKind::cosine, 10, 0, 0.1},
                 {0, 0.1, 0.3, 0.9, 1, 0.9997258721585931, 0.9397114317029974, 0.6281416799501187,
                  0.23740373329345119, 0.13276726544494571, 0.12713832064634126, 0.1068365111445064,
                  0.10027412784140691, 0.1});
}

TEST(LrSchedule, WarmupStableDecay) {
  expect_factors({ScheduleKind::wsd, 10, 20, 0.0},
                 {0, 0.1, 0.3, 0.9, 1, 1, 1, 1, 1, 0.5782172325201155, 0.5, 0.14644660940672627,
                  0.00615582970243117, 0});
  // Transformers warms wsd up from min_lr_ratio; here every kind warms up from 0.
  expect_factors({ScheduleKind::wsd, 10, 20, 0.1},
                 {0, 0, 0, 0, 1, 1, 1, 1, 1, 0.6203955092681039, 0.55, 0.23180194846605365,
                  0.10554024673218806, 0.1},
                 4);
}

TEST(LrSchedule, DecayMayEndBeforeTheRun) {
  const ScheduleConfig schedule{ScheduleKind::linear, 10, 40, 0.2};
  EXPECT_DOUBLE_EQ(lr_factor(schedule, 30, run_steps), 0.6);
  EXPECT_DOUBLE_EQ(lr_factor(schedule, 50, run_steps), 0.2);
  EXPECT_DOUBLE_EQ(lr_factor(schedule, 99, run_steps), 0.2);
}

TEST(LrSchedule, StaysAtTheEndValueAfterTheRun) {
  for (auto kind : {ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::wsd})
    EXPECT_DOUBLE_EQ(lr_factor({kind, 0, 10, 0.25}, 5000, run_steps), 0.25);
}

TEST(LrSchedule, ARunThatIsAllWarmup) {
  const ScheduleConfig schedule{ScheduleKind::cosine, 100, 0, 0.0};
  EXPECT_DOUBLE_EQ(lr_factor(schedule, 99, run_steps), 0.99);
  EXPECT_DOUBLE_EQ(lr_factor(schedule, 100, run_steps), 1.0);
}

}  // namespace
}  // namespace fathom::train
