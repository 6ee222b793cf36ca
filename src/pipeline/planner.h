#pragma once

#include <cstddef>
#include <vector>

#include "pipeline/replay.h"
#include "pipeline/schedule.h"

namespace fathom::pipeline {

/// One stage's cost for one micro-batch.
struct StageCost {
  double forward_s = 0;
  double backward_s = 0;
  std::size_t bundle_bytes = 0;  ///< sent to the next stage
  std::size_t grad_bytes = 0;    ///< sent to the previous stage
};

/// A message of n bytes takes latency_s + n / bytes_per_s; messages of one direction follow each
/// other.
struct LinkCost {
  double latency_s = 0;
  double bytes_per_s = 1;
};

struct StagePlan {
  double busy_s = 0;
  double bubble_share = 0;  ///< share of the step in which the stage computes nothing
};

struct PlannedMessage {
  Message message;
  std::size_t bytes = 0;
};

struct StepPlan {
  double step_s =
      0;  ///< until the last stage ends; optimizer and data-parallel reduction not included
  std::vector<StagePlan> stages;
  std::vector<PlannedMessage> messages;
  std::size_t total_bytes() const;
};

/// Replays a step against the cost model, with receives posted ahead and transfers that run beside
/// the computation. Requires one cost per schedule and bytes_per_s > 0. Throws as replay does.
StepPlan plan_step(const std::vector<Schedule>& schedules, const std::vector<StageCost>& costs,
                   const LinkCost& link);

}  // namespace fathom::pipeline
