#pragma once

// What attention asks of its operands on every device, and the counter of its random numbers.

#include <cstdint>
#include <vector>

#include "core/philox.h"
#include "kernels/attention.h"

namespace fathom::kernels {

/// Throws Error(internal) unless shapes, types, starts and dropout agree.
void check_attention(const AttentionShape& shape, const std::vector<std::int32_t>& starts,
                     const AttentionDropout& dropout, const Tensor& q, const Tensor& k,
                     const Tensor& v, const Tensor& out, const Tensor& lse);

/// The same for attention_decode().
void check_decode(const AttentionShape& shape, const std::vector<std::int32_t>& slots,
                  const std::vector<std::int32_t>& lengths, const Tensor& q, const Tensor& keys,
                  const Tensor& values, const Tensor& out);

/// Last word of the counter of a head's probabilities, by its global index. Sites of other dropouts
/// leave the upper half empty, so that no two counters coincide.
FATHOM_HOST_DEVICE inline std::uint32_t dropout_place(std::uint32_t site, std::int64_t head) {
  return site | static_cast<std::uint32_t>(head + 1) << 16;
}

}  // namespace fathom::kernels
