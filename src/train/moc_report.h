#pragma once

#include "train/engine.h"
#include "train/metrics/step_metrics.h"

// What a run with mixture of control says about its routing; nothing without one.

namespace fathom::train {

/// Lets the next step measure how much single tokens weigh in what gates score.
void watch_tokens(Engine& engine);

/// After that step: warns, on rank 0, if one token made up more than half of a group's mean state.
/// Collective over the grid.
void warn_of_large_tokens(Engine& engine);

/// Adds to a step's metrics what was chosen, and the bytes of the bank that this rank received in
/// it. Collective over the grid.
void add_routing(Engine& engine, std::int64_t bank_bytes, StepMetrics& metrics);

}  // namespace fathom::train
