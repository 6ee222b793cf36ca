#pragma once

#include <string>

#include "train/engine.h"

namespace fathom::launch {

/// What a run would do, for `fathom train --dry-run`: partition, memory by class, messages and
/// bytes of each stage. Starts no MPI and allocates nothing.
std::string dry_run(const train::TrainConfig& config, const train::EnginePlan& plan);

}  // namespace fathom::launch
