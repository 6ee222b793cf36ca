#pragma once

#include <string>

#include "train/engine.h"

namespace fathom::train {

/// What late layers that vote add to a model, of plan.mode: their parameters as a number and as
/// shares of the model's and, with an adapter or mixture of control, of what that trains.
std::string mode_parameters(const EnginePlan& plan);

/// What the head's products take and, where late layers are on several stages, what travels, beside
/// what could and why it does not (train/mode_transport.h).
std::string mode_transport_text(const TrainConfig& config, const EnginePlan& plan);

}  // namespace fathom::train
