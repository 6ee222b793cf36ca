#pragma once

// What device and shared memory holds before a kernel writes to it.

namespace fathom::gpu::sim {

/// Every byte: as a float a NaN.
constexpr int kPoison = 0xff;

}  // namespace fathom::gpu::sim
