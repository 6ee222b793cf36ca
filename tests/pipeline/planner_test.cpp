#include "pipeline/planner.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace fathom::pipeline {
namespace {

TEST(Planner, UniformStagesHaveTheKnownBubble) {
  // (micro_batches + stages - 1) slots of one forward and one backward each; stages - 1 are idle.
  for (int stages = 1; stages <= 8; ++stages)
    for (int micro_batches = 1; micro_batches <= 16; ++micro_batches) {
      const std::vector<StageCost> costs(static_cast<std::size_t>(stages), {1.0, 2.0, 100, 100});
      const auto plan = plan_step(all_schedules(stages, micro_batches), costs, {0, 1e30});
      const int slots = micro_batches + stages - 1;
      ASSERT_NEAR(plan.step_s, 3.0 * slots, 1e-9);
      for (const auto& stage : plan.stages) {
        ASSERT_NEAR(stage.busy_s, 3.0 * micro_batches, 1e-9);
        ASSERT_NEAR(stage.bubble_share, static_cast<double>(stages - 1) / slots, 1e-9);
      }
    }
}

TEST(Planner, TheSlowestStageSetsThePace) {
  const std::vector<StageCost> costs = {{1, 1, 0, 0}, {4, 4, 0, 0}, {1, 1, 0, 0}};
  const auto plan = plan_step(all_schedules(3, 100), costs, {0, 1});
  // Only stage 0's first forward and last backward are not hidden behind stage 1.
  EXPECT_NEAR(plan.step_s, 8.0 * 100 + 2, 1e-9);
  EXPECT_LT(plan.stages[1].bubble_share, 0.01);
  EXPECT_NEAR(plan.stages[0].bubble_share, 0.75, 0.01);
}

TEST(Planner, MessagesAreListedWithTheirBytesAndTimes) {
  const std::vector<StageCost> costs = {{1, 2, 1000, 0}, {1, 2, 0, 500}};
  const auto plan = plan_step(all_schedules(2, 1), costs, {0.25, 1000});
  ASSERT_EQ(plan.messages.size(), 2u);
  const auto& bundle = plan.messages[0];
  EXPECT_EQ(bundle.message.from, 0);
  EXPECT_EQ(bundle.message.to, 1);
  EXPECT_FALSE(bundle.message.is_grad);
  EXPECT_EQ(bundle.bytes, 1000u);
  EXPECT_NEAR(bundle.message.sent_s, 1.0, 1e-12);
  EXPECT_NEAR(bundle.message.arrived_s, 2.25, 1e-12);
  const auto& grad = plan.messages[1];
  EXPECT_TRUE(grad.message.is_grad);
  EXPECT_EQ(grad.bytes, 500u);
  EXPECT_NEAR(grad.message.arrived_s, 2.25 + 3 + 0.75, 1e-12);
  EXPECT_NEAR(plan.step_s, 8.0, 1e-12);
  EXPECT_EQ(plan.total_bytes(), 1500u);
}

TEST(Planner, TransfersOfOneDirectionFollowEachOther) {
  // The first stage computes in no time, so its two bundles share the link: 1 s, then 2 s.
  const std::vector<StageCost> costs = {{0, 0, 1000, 0}, {0, 0, 0, 0}};
  const auto plan = plan_step(all_schedules(2, 2, 2), costs, {0, 1000});
  EXPECT_NEAR(plan.messages[0].message.arrived_s, 1, 1e-12);
  EXPECT_NEAR(plan.messages[1].message.arrived_s, 2, 1e-12);
}

TEST(Planner, FrozenFirstStagesHaveNoBackward) {
  const std::vector<StageCost> costs(4, {1, 2, 10, 10});
  const auto plan = plan_step(all_schedules(4, 8, 2), costs, {0, 1e30});
  EXPECT_NEAR(plan.stages[0].busy_s, 8, 1e-9);
  EXPECT_NEAR(plan.stages[3].busy_s, 24, 1e-9);
  const auto grads = std::count_if(plan.messages.begin(), plan.messages.end(),
                                   [](const auto& planned) { return planned.message.is_grad; });
  EXPECT_EQ(grads, 8);  // from stage 3 to stage 2 only
}

}  // namespace
}  // namespace fathom::pipeline
