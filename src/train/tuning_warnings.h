#pragma once

#include "data/dataset.h"
#include "train/engine.h"

namespace fathom::train {

/// Warns where what a run asks for leaves parameters without a gradient: gates that only a balance
/// term would reach, and edits of prompts that the records do not have.
void warn_of_idle_parameters(const EnginePlan& plan, const data::Dataset& records);

}  // namespace fathom::train
