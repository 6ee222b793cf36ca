#pragma once

#include <string>

#include "train/engine.h"

namespace fathom::train {

/// What late layers that vote add to a model, of plan.mode: their parameters as a number and as
/// shares of the model's and, with an adapter or mixture of control, of what that trains.
std::string mode_parameters(const EnginePlan& plan);

/// Ways to bring what late layers of several stages say to one loss. Bytes and operations are those
/// of a full micro-batch, all of whose rows are supervised; gradients travel back by as many bytes.
struct ModeTransport {
  double state_bytes = 0;    ///< late states to the last stage, over all boundaries
  double mixture_bytes = 0;  ///< the running sum of G_i N_i(H_i) and G instead of them
  double logit_bytes = 0;    ///< the last layer's logits to each earlier stage that has late states
  double head_bytes = 0;     ///< copies of the head there
  double head_flops = 0;     ///< forward, the head's products of all layers that pass it
  double early_flops = 0;    ///< of these, what earlier stages could do where the states are
};
ModeTransport mode_transport(const TrainConfig& config, const EnginePlan& plan);

/// The same in words: what the head's products take, and where late layers are on several stages
/// what travels beside what could. It decides nothing: late states always travel to the last stage.
std::string mode_transport_text(const TrainConfig& config, const EnginePlan& plan);

}  // namespace fathom::train
