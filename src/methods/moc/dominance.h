#pragma once

#include "core/tensor.h"
#include "methods/routing/decision.h"

namespace fathom::methods::moc {

/// The largest part that one counted token has in the mean state of its group, x_n . m / (N m . m)
/// with m the mean of the group's N states; the parts of a group add up to 1. A token with most of
/// it decides nearly alone what the group's mean scores are. For the host: copies `states` [n, d].
double largest_part(const Tensor& states, const routing::Groups& groups);

}  // namespace fathom::methods::moc
