#pragma once

#include "diagnose/depth/recommend.h"
#include "diagnose/report.h"

namespace fathom::diagnose::depth {

/// Tables "layers", "tokens_both", "examples_both" and "examples_solved", pictures of losses,
/// agreement and overlap, and the recommended k, from sums over all ranks.
Report report_of(const DepthSums& sums, const DepthRule& rule, bool routed);

}  // namespace fathom::diagnose::depth
