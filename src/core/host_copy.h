#pragma once

#include <cstddef>
#include <span>

#include "core/tensor.h"

namespace fathom {

/// to_host() into memory of the caller's, as many values as the tensor has: for what is too large
/// to be copied twice.
void copy_to_host(const Tensor& tensor, std::span<float> values);

/// The same in the tensor's own dtype: as many bytes as it has.
void copy_to_host(const Tensor& tensor, std::span<std::byte> bytes);

}  // namespace fathom
