#include "methods/distill/threshold.h"

#include <gtest/gtest.h>
#include <set>
#include <vector>

namespace fathom::methods::distill {
namespace {

// The reference changes only where phi rises: 3.15 is held against 3.1, not against 3.15's
// predecessors 2.5 and 2.9.
TEST(Threshold, RisesWhereTheLossDoes) {
  Threshold threshold({});
  std::vector<double> values, references;
  for (const double loss : {3.0, 2.5, 2.9, 3.1, 3.15, 3.25}) {
    threshold.evaluated(loss);
    values.push_back(threshold.value());
    references.push_back(*threshold.state().reference);
  }
  EXPECT_EQ(values, (std::vector{0.0, 0.0, 0.0, 0.1, 0.1, 0.2}));
  EXPECT_EQ(references, (std::vector{3.0, 3.0, 3.0, 3.1, 3.1, 3.25}));
}

TEST(Threshold, StopsAtOne) {
  Threshold threshold({.initial = 0.75, .rise = 0.2, .tolerance = 0});
  for (const double loss : {1.0, 1.0, 1.0, 1.0}) threshold.evaluated(loss);
  EXPECT_EQ(threshold.value(), 1.0);
}

TEST(Threshold, GoesOnFromItsState) {
  Threshold straight({}), resumed({});
  for (const double loss : {2.0, 2.2}) straight.evaluated(loss);
  resumed.restore(straight.state());
  for (Threshold* each : {&straight, &resumed}) each->evaluated(2.25);
  EXPECT_EQ(resumed.value(), 0.1);
  EXPECT_EQ(resumed.value(), straight.value());
  EXPECT_EQ(resumed.state().reference, straight.state().reference);
}

TEST(FreshShare, FollowsTheSchedule) {
  const auto shares = [](ReplaySchedule schedule) {
    std::vector<double> all;
    for (const int step : {0, 25, 75, 100}) all.push_back(fresh_share(schedule, 0.8, step, 100));
    return all;
  };
  EXPECT_EQ(shares(ReplaySchedule::decreasing), (std::vector{0.8, 0.8 * 0.75, 0.8 * 0.25, 0.0}));
  EXPECT_EQ(shares(ReplaySchedule::constant), (std::vector{0.4, 0.4, 0.4, 0.4}));
  EXPECT_EQ(shares(ReplaySchedule::increasing), (std::vector{0.0, 0.8 * 0.25, 0.8 * 0.75, 0.8}));
}

TEST(Origin, IsChosenByOneDraw) {
  for (const bool full : {false, true}) {
    EXPECT_EQ(choose_origin(0.1, 0.6, 0.2, full), Origin::generate);
    EXPECT_EQ(choose_origin(0.2, 0.6, 0.2, full), full ? Origin::replay : Origin::generate);
    EXPECT_EQ(choose_origin(0.6, 0.6, 0.2, full), Origin::dataset);
    EXPECT_EQ(choose_origin(0.0, 0.0, 0.0, full), Origin::dataset) << "phi 0 is off-policy";
  }
}

TEST(Origin, DrawsAreUniformAndUnlike) {
  std::set<double> seen;
  int below = 0;
  for (std::int64_t step = 0; step < 500; ++step)
    for (std::int64_t j = 0; j < 4; ++j) {
      const double r = origin_draw(7, step, j);
      EXPECT_TRUE(0 <= r && r < 1);
      below += r < 0.3;
      seen.insert(r);
      seen.insert(origin_draw(8, step, j));
    }
  EXPECT_EQ(seen.size(), 4000u);
  EXPECT_NEAR(below, 600, 4 * 20.5) << "four standard deviations of 2000 draws";
}

}  // namespace
}  // namespace fathom::methods::distill
