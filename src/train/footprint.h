#pragma once

#include "pipeline/planner.h"
#include "train/engine.h"

namespace fathom::train {

/// Bytes that a rank of one stage will need, by class, for full micro-batches of the context's
/// length. Parameters are exact, but that norms and biases count as the matrices beside them do;
/// activations count what the operations of a block save; `save` is the copy from which a
/// checkpoint is written while training goes on, always in the host's memory.
struct Footprint {
  double weights = 0, gradients = 0, moments = 0, teacher = 0, activations = 0, head = 0, save = 0;
  double total() const {
    return weights + gradients + moments + teacher + activations + head + save;
  }
};

Footprint footprint(const TrainConfig& config, const EnginePlan& plan, int stage);

/// Relative time (token_costs) and message sizes of a stage for a micro-batch of so many tokens, in
/// seconds of a machine of 1 TFLOP/s.
pipeline::StageCost stage_cost(const TrainConfig& config, const EnginePlan& plan, int stage,
                               std::int64_t tokens);

}  // namespace fathom::train
