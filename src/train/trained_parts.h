#pragma once

#include <vector>

#include "train/engine.h"

namespace fathom::train {

/// How much of the student's own weights a run trains, known before anything is allocated: what its
/// backward pass costs and keeps follows from it.
struct TrainedParts {
  std::vector<double> share;  ///< by layer: of its matrices' elements
  bool embedding = false, positions = false;
  bool head = false;  ///< which may be the embedding
  /// The first layer through which gradients pass. Those in front of it, and so of all that is
  /// trained, keep nothing and have no backward pass; all of them, if nothing below the head is.
  std::int64_t first_layer = 0;

  /// Of a layer, in forward passes: one for the gradient of its input, and one for those of its own
  /// matrices by their share; none in front of first_layer.
  double backward_passes(std::int64_t layer) const {
    return layer < first_layer ? 0 : 1 + share[static_cast<std::size_t>(layer)];
  }
};

TrainedParts trained_parts(const TrainConfig& config, const EnginePlan& plan);

}  // namespace fathom::train
