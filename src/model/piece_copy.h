#pragma once

#include <span>

#include "model/parameters.h"

namespace fathom::model {

/// One piece of a parameter, or of any tensor of its local shape, row by row into memory of the
/// caller's.
void piece_to_host(const Parameter& parameter, const Tensor& local, const Piece& piece,
                   std::span<float> values);

}  // namespace fathom::model
