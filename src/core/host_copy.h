#pragma once

#include <span>

#include "core/tensor.h"

namespace fathom {

/// to_host() into memory of the caller's, as many values as the tensor has: for what is too large
/// to be copied twice.
void copy_to_host(const Tensor& tensor, std::span<float> values);

}  // namespace fathom
