#pragma once

#include <string>

#include "train/engine.h"

/// Which parameters of the student a run trains.
namespace fathom::train {

/// Whether the run trains a parameter, of the model or of a method.
bool trains(const TrainConfig& config, const EnginePlan& plan, const std::string& name);

/// Throws Error(config) for a pattern of model.freeze or adapter.train that matches no parameter of
/// the model or only a part of a fused matrix, for a matrix that has an adapter and would be
/// trained as well, and for a run that trains nothing. Allocates nothing.
void check_trained(const TrainConfig& config, const EnginePlan& plan);

/// Elements of the student's parameters with those of its methods, over all ranks.
struct TrainedCount {
  std::int64_t trained = 0, all = 0;
};
/// Collective over the grid.
TrainedCount count_trained(Engine& engine);

}  // namespace fathom::train
