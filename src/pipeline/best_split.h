#pragma once

#include <functional>
#include <vector>

namespace fathom::pipeline {

/// What two models have on one stage: the layers [begin, end) of each.
struct StageLayers {
  int stage = 0;
  int begin = 0, end = 0;
  int other_begin = 0, other_end = 0;
};

/// Number of layers on each stage.
struct Split {
  std::vector<int> lengths, other_lengths;
};

/// Splits [0, layers) and [0, other_layers) into `stages` consecutive ranges of at least one layer
/// each. Best is, in this order: least total penalty, least cost of the costliest stage, least sum
/// of squared costs; then the earliest ranges are the shortest, those of the first model first.
/// Exact (dynamic programming, some layers^2 other_layers^2 stages / 4 steps). Costs are not
/// negative and do not fall when a range grows; penalties may be negative. Requires 1 <= stages <=
/// layers and other_layers.
Split best_split(int layers, int other_layers, int stages,
                 const std::function<double(const StageLayers&)>& cost,
                 const std::function<int(const StageLayers&)>& penalty);

}  // namespace fathom::pipeline
