#pragma once

#include "train/engine.h"
#include "train/span_feed.h"

namespace fathom::train {

/// The losses on hidden states that a run asks for: MTA and FDD. `feed` gives MTA its spans and may
/// be null without it; device, grid and feed must outlive the losses.
Engine::Losses make_state_losses(Device& device, comm::ProcessGrid& grid, const TrainConfig& config,
                                 const EnginePlan& plan, SpanFeed* feed);

/// The key states that the losses of a plan compare, and those that vote.
std::vector<methods::Site> state_sites(const EnginePlan& plan);

}  // namespace fathom::train
