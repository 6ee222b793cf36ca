#include "pipeline/schedule.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <string>

#include "core/error.h"
#include "pipeline/verify_schedule.h"

namespace fathom::pipeline {
namespace {

using enum ActionKind;

TEST(Schedule, TwoStagesThreeMicroBatchesByHand) {
  EXPECT_EQ(schedule_1f1b(0, 2, 3), (Schedule{{forward, 0},
                                              {send_bundle, 0},
                                              {forward, 1},
                                              {send_bundle, 1},
                                              {recv_grad, 0},
                                              {finish_bundle, 0},
                                              {backward, 0},
                                              {forward, 2},
                                              {send_bundle, 2},
                                              {recv_grad, 1},
                                              {finish_bundle, 1},
                                              {backward, 1},
                                              {recv_grad, 2},
                                              {finish_bundle, 2},
                                              {backward, 2}}));
  EXPECT_EQ(schedule_1f1b(1, 2, 3), (Schedule{{recv_bundle, 0},
                                              {forward, 0},
                                              {backward, 0},
                                              {send_grad, 0},
                                              {recv_bundle, 1},
                                              {forward, 1},
                                              {backward, 1},
                                              {finish_grad, 0},
                                              {send_grad, 1},
                                              {recv_bundle, 2},
                                              {forward, 2},
                                              {backward, 2},
                                              {finish_grad, 1},
                                              {send_grad, 2},
                                              {finish_grad, 2}}));
}

TEST(Schedule, EveryShapeIsProved) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int micro_batches = 0; micro_batches <= 16; ++micro_batches)
      for (int first_trainable = 0; first_trainable <= stages; ++first_trainable) {
        const auto schedules = all_schedules(stages, micro_batches, first_trainable);
        const auto loads = verify_schedule(schedules, micro_batches, first_trainable);
        for (int s = 0; s < stages; ++s) {
          const auto& load = loads[static_cast<std::size_t>(s)];
          const bool trains = s >= first_trainable;
          ASSERT_EQ(load.live_micro_batches, trains ? std::min(micro_batches, stages - s) : 0);
          ASSERT_LE(load.bundles_on_the_way, trains ? stages - s : stages);
        }
      }
}

TEST(Schedule, AStageWithNothingTrainableBeforeItSendsNoGradient) {
  const auto schedules = all_schedules(4, 6, 2);
  const auto count = [&](int stage, ActionKind kind) {
    const auto& schedule = schedules[static_cast<std::size_t>(stage)];
    return std::count_if(schedule.begin(), schedule.end(),
                         [&](const Action& action) { return action.kind == kind; });
  };
  EXPECT_EQ(count(0, backward) + count(1, backward), 0);
  EXPECT_EQ(count(1, recv_grad), 0);
  EXPECT_EQ(count(2, backward), 6);
  EXPECT_EQ(count(2, send_grad), 0);
  EXPECT_EQ(count(3, send_grad), 6);
}

TEST(Schedule, ForwardOnlyEqualsNothingTrainable) {
  for (int stage = 0; stage < 3; ++stage)
    EXPECT_EQ(schedule_forward(stage, 3, 9), schedule_1f1b(stage, 3, 9, 3));
}

std::string refusal(const std::vector<Schedule>& schedules, int micro_batches,
                    int first_trainable = 0) {
  try {
    verify_schedule(schedules, micro_batches, first_trainable);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(VerifySchedule, RefusesAnyMissingOrRepeatedAction) {
  for (int stages = 1; stages <= 4; ++stages)
    for (int micro_batches = 1; micro_batches <= 5; ++micro_batches) {
      const auto good = all_schedules(stages, micro_batches);
      for (std::size_t s = 0; s < good.size(); ++s)
        for (std::size_t i = 0; i < good[s].size(); ++i) {
          auto missing = good, repeated = good;
          const auto at = static_cast<std::ptrdiff_t>(i);
          missing[s].erase(missing[s].begin() + at);
          repeated[s].insert(repeated[s].begin() + at, good[s][i]);
          ASSERT_NE(refusal(missing, micro_batches), "") << "stage " << s << ", action " << i;
          ASSERT_NE(refusal(repeated, micro_batches), "") << "stage " << s << ", action " << i;
        }
    }
}

TEST(VerifySchedule, RefusesSendsThatBlock) {
  // A send that is finished at once is MPI_Send without buffers: both neighbours send and nobody
  // receives.
  auto schedules = all_schedules(2, 4);
  for (auto& schedule : schedules) {
    Schedule blocking;
    for (const Action& action : schedule) {
      if (action.kind == finish_bundle || action.kind == finish_grad) continue;
      blocking.push_back(action);
      if (action.kind == send_bundle) blocking.push_back({finish_bundle, action.micro_batch});
      if (action.kind == send_grad) blocking.push_back({finish_grad, action.micro_batch});
    }
    schedule = blocking;
  }
  const auto text = refusal(schedules, 4);
  EXPECT_NE(
      text.find("deadlocks; stage 0 waits at finish_bundle of micro-batch 1; stage 1 waits at "
                "finish_grad of micro-batch 0"),
      std::string::npos)
      << text;
}

TEST(VerifySchedule, RefusesAllForwardsFirst) {
  Schedule first, last;
  const int micro_batches = 4;
  for (int m = 0; m < micro_batches; ++m) {
    first.insert(first.end(), {{forward, m}, {send_bundle, m}});
    last.insert(last.end(), {{recv_bundle, m}, {forward, m}});
  }
  for (int m = 0; m < micro_batches; ++m) {
    first.insert(first.end(), {{recv_grad, m}, {finish_bundle, m}, {backward, m}});
    last.insert(last.end(), {{backward, m}, {send_grad, m}, {finish_grad, m}});
  }
  EXPECT_NE(refusal({first, last}, micro_batches).find("live micro-batches"), std::string::npos);
}

TEST(VerifySchedule, RefusesAnEffectBeforeItsCause) {
  auto schedules = all_schedules(2, 2);
  std::swap(schedules[1][0], schedules[1][1]);  // forward 0 before recv_bundle 0
  EXPECT_NE(refusal(schedules, 2).find("stage 1: forward of micro-batch 0 comes before"),
            std::string::npos);
}

TEST(VerifySchedule, RefusesMessagesInAnotherOrder) {
  auto schedules = all_schedules(2, 2);
  for (Action& action : schedules[1]) action.micro_batch = 1 - action.micro_batch;
  EXPECT_NE(refusal(schedules, 2), "");
}

TEST(VerifySchedule, RefusesAnotherFirstTrainableStage) {
  EXPECT_NE(refusal(all_schedules(3, 4, 1), 4, 0), "");
  EXPECT_NE(refusal(all_schedules(3, 4, 0), 4, 1), "");
  EXPECT_NE(refusal(all_schedules(3, 4), 5), "");
}

TEST(VerifySchedule, RefusesUnlimitedForwards) {
  auto schedules = all_schedules(2, 8, 2);
  auto& first = schedules[0];
  std::stable_partition(first.begin(), first.end(),
                        [](const Action& action) { return action.kind != finish_bundle; });
  EXPECT_NE(refusal(schedules, 8, 2).find("bundles on the way"), std::string::npos);
}

}  // namespace
}  // namespace fathom::pipeline
