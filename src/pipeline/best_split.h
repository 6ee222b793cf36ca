#pragma once

#include <functional>
#include <vector>

namespace fathom::pipeline {

/// Splits [0, layers) into `stages` consecutive ranges of at least one layer each. Best is, in this
/// order: least total penalty, least cost of the costliest range, least sum of squared costs; then
/// the earliest ranges are the shortest. Exact (dynamic programming). Costs are not negative.
/// Returns the lengths. Requires 1 <= stages <= layers.
std::vector<int> best_split(int layers, int stages,
                            const std::function<double(int stage, int begin, int end)>& cost,
                            const std::function<int(int stage, int begin, int end)>& penalty);

}  // namespace fathom::pipeline
