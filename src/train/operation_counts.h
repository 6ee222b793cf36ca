#pragma once

#include "train/engine.h"

// Counts of arithmetic and of saved values that follow from a plan alone: what --dry-run foretells
// and what measured times are compared with.

namespace fathom::train {

/// Multiply-adds per token, in one forward pass, of what tunes the frozen student beside layer
/// `layer`: low-rank products, gates, and with molex the second layer that runs. LoReFT's few rows
/// are left out.
double added_multiply_adds(const EnginePlan& plan, std::int64_t layer);

/// Times that the head is multiplied with each row: by every layer that votes now, where they are
/// compared.
int head_products(const TrainConfig& config, const EnginePlan& plan);

/// Whether something else is trained instead of the student's own weights.
bool is_tuned(const EnginePlan& plan);

/// Floating-point operations of one optimizer step: multiply-adds of all matrix products, attention
/// counted over the causal half, counted twice each. A frozen matrix has no product for its
/// gradient, and a layer in front of all that is trained has no backward pass. Products of a bf16
/// teacher count half where bf16 runs at twice the rate, so that the time at the measured f32 peak
/// is a bound. `label_tokens` rows reach the head.
double step_flops(const EnginePlan& plan, const TrainConfig& config, std::int64_t tokens,
                  std::int64_t label_tokens, std::int64_t sum_of_squared_lengths);

/// f32 values that layer `layer` of the student keeps of each token for the backward pass, on one
/// of the tensor ranks; its input alone where blocks are recomputed.
double kept_per_token(const EnginePlan& plan, const TrainConfig& config, std::int64_t layer);

/// The same of a block that is not recomputed.
double block_keeps(const EnginePlan& plan, const TrainConfig& config, std::int64_t layer);

}  // namespace fathom::train
