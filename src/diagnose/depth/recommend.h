#pragma once

#include <string>

#include "diagnose/depth/sums.h"

namespace fathom::diagnose::depth {

/// When a layer is worth a vote.
struct DepthRule {
  double gain = 0.005;     ///< share of the tokens that it puts right and no later layer does
  double agreement = 0.5;  ///< share of the tokens where it puts first what the last layer does
  double weight = 0.01;    ///< of a trained router, in the mean
};

struct Recommendation {
  int k = 1;
  std::string reason;  ///< which layer is the first that is not worth it, and why
};

/// From the last layer down, takes layers as long as each keeps the rule; the first that does not
/// ends it, for the late layers that vote have no gap. `routed`: the weights are of a trained
/// router, and count.
Recommendation recommend(const DepthSums& sums, const DepthRule& rule, bool routed);

}  // namespace fathom::diagnose::depth
