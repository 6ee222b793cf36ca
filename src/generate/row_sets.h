#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace fathom::generate {

/// Row numbers on the device, i32 [n].
Tensor upload(Device& device, const std::vector<std::int32_t>& values);

/// A copy of the rows of x by index.
Tensor gather(const Tensor& x, const std::vector<std::int32_t>& index);

/// The same; x itself if the index, ascending, names all of its rows.
Tensor rows_of(const Tensor& x, const std::vector<std::int32_t>& index);

/// All rows, one part below the other; a part alone is not copied. At least one part.
Tensor stack(const std::vector<Tensor>& parts);

}  // namespace fathom::generate
