#pragma once

#include "train/engine.h"

// Ways to bring what late layers of several stages say to the one head, what each would cost, and
// which is taken.

namespace fathom::train {

/// Bytes and operations are those of a full micro-batch, all of whose rows are supervised;
/// gradients travel back by as many bytes.
struct ModeTransport {
  double state_bytes = 0;    ///< late states to the last stage, over all boundaries
  double mixture_bytes = 0;  ///< the running sum of G_i N_i(H_i) and G instead of them
  double logit_bytes = 0;    ///< the last layer's logits to each earlier stage that has late states
  double head_bytes = 0;     ///< copies of the head there
  double head_flops = 0;     ///< forward, the head's products of all layers that pass it
  double early_flops = 0;    ///< of these, what earlier stages could do where the states are
};
ModeTransport mode_transport(const TrainConfig& config, const EnginePlan& plan);

/// Why late states travel and no running sum does; null if one may and is fewer bytes. A sum is
/// enough for a loss that asks no single layer, of norms and a router that nobody else reads.
const char* states_needed(const TrainConfig& config, const EnginePlan& plan);

/// The way that a training run takes: the running sum unless states are needed.
methods::mode::Transport choose_transport(const TrainConfig& config, const EnginePlan& plan);

/// What a stage has of the vote of plan.mode, and the states that the stages need for it, one site
/// for each stage that has some.
methods::mode::VotePart vote_part(const EnginePlan& plan, int stage);
std::vector<methods::Site> vote_sites(const EnginePlan& plan);

/// The first stage that sends a running sum on; the last one if none travels.
int first_sum_sender(const EnginePlan& plan);

/// Values of a token that a running sum is made of, with the weights that travel beside it.
std::int64_t sum_values(const EnginePlan& plan);

}  // namespace fathom::train
