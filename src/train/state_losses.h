#pragma once

#include "methods/mta/loss.h"
#include "train/engine.h"

namespace fathom::train {

/// The losses on hidden states that a run asks for: MTA and FDD. `spans_of` gives MTA its spans and
/// may be empty without it; device and grid must outlive the losses.
Engine::Losses make_state_losses(Device& device, comm::ProcessGrid& grid, const TrainConfig& config,
                                 const EnginePlan& plan, methods::mta::SpansOf spans_of);

/// The key states that the losses of a plan compare, and those that vote.
std::vector<methods::Site> state_sites(const EnginePlan& plan);

}  // namespace fathom::train
