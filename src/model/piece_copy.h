#pragma once

#include <cstddef>
#include <span>

#include "model/parameters.h"

namespace fathom::model {

/// One piece of a parameter, or of any tensor of its local shape, row by row and in that tensor's
/// dtype into memory of the caller's.
void piece_to_host(const Parameter& parameter, const Tensor& local, const Piece& piece,
                   std::span<std::byte> bytes);

}  // namespace fathom::model
