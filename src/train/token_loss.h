#pragma once

#include "data/batch_plan.h"
#include "kernels/loss.h"
#include "train/config.h"

namespace fathom::train {

/// The losses of a token as [loss] asks for them, their weights divided by the step's denominator
/// (of `counts`, over all ranks) and the divergence's multiplied by T^2 where wanted.
kernels::TokenLoss token_loss(const LossConfig& config, const data::BatchCounts& counts);

/// The factors of every supervised row's losses, [rows, 2], that make a sum over rows the sum over
/// sequences of each one's token mean; undefined where tokens are counted.
Tensor row_weights(Device& device, const LossConfig& config, const data::MicroBatch& batch);

}  // namespace fathom::train
