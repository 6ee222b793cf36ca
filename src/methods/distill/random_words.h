#pragma once

#include <cstdint>

#include "core/philox.h"

namespace fathom::methods::distill {

/// A double in [0, 1) for the n-th draw of a micro-batch, apart from all other random numbers of a
/// run with the same seed.
inline double uniform(std::uint64_t seed, std::int64_t step, std::int64_t micro_batch,
                      std::uint32_t n) {
  constexpr std::uint32_t kStream = 0x6f726967;
  const Philox words =
      philox(static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
             static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(micro_batch), n, kStream);
  const std::uint64_t bits = std::uint64_t{words.v[0]} << 21 ^ words.v[1] >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace fathom::methods::distill
