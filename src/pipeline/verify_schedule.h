#pragma once

#include <vector>

#include "pipeline/schedule.h"

namespace fathom::pipeline {

/// The most that each stage holds at once: what its memory must be planned for.
struct StageLoad {
  int live_micro_batches = 0;  ///< forwarded and not yet backwarded; on a forward-only stage, 0
  int bundles_on_the_way = 0;  ///< sent and not yet finished
  int grads_on_the_way = 0;
};

/// Proves a set of schedules, one per stage: every micro-batch is forwarded once and backwarded
/// once on each stage from `first_trainable` on; every action comes after what it needs; every
/// message is received in order and finished; no stages wait for each other even when nothing is
/// buffered; and stage s holds at most stages - s live micro-batches, `stages` bundles and one
/// gradient on the way. Throws Error(internal) that names the stage and the action; returns the
/// loads by stage.
std::vector<StageLoad> verify_schedule(const std::vector<Schedule>& schedules, int micro_batches,
                                       int first_trainable = 0);

}  // namespace fathom::pipeline
