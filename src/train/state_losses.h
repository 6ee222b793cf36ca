#pragma once

#include "methods/mta/loss.h"
#include "train/engine.h"
#include "train/state_routes.h"

namespace fathom::train {

/// The losses on hidden states that a run asks for: MTA and FDD. `spans_of` gives MTA its spans and
/// may be empty without it; device and grid must outlive the losses.
Engine::Losses make_state_losses(Device& device, comm::ProcessGrid& grid, const TrainConfig& config,
                                 const EnginePlan& plan, methods::mta::SpansOf spans_of);

/// The key states that the losses of a plan compare, and those that vote.
std::vector<methods::Site> state_sites(const EnginePlan& plan);

/// Where those key states travel; the sites of plan.mta_layers come first.
StateRoutes state_routes(const EnginePlan& plan);

/// Rows of the logits of all key layers of both models that FDD holds at a time, on each tensor
/// rank of the last stage. `plan` must have key layers.
std::int64_t fdd_chunk_rows(const EnginePlan& plan, const GridConfig& grid);

}  // namespace fathom::train
