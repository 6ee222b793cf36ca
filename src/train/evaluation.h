#pragma once

#include "data/batch_plan.h"
#include "eval/token_metrics.h"
#include "train/engine.h"

namespace fathom::train {

/// The student's loss and accuracy over an evaluation set, summed over all ranks, on every rank.
/// Done in parts, between which all ranks agree on whether to stop: throws Stopped on each of them
/// if any was asked to. Collective over the grid.
eval::TokenMetrics evaluate(Engine& engine, const data::EvalBatches& batches,
                            const pipeline::ActionObserver& observer = {});

}  // namespace fathom::train
