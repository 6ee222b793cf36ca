#pragma once

#include <cstdint>

namespace fathom {

/// Memory of this process that is in RAM, in bytes.
struct MemoryUsage {
  std::int64_t resident = 0;
  std::int64_t peak = 0;  ///< the largest `resident` since the process began
};

/// As the kernel counts it in /proc/self/status. Throws Error(io) where that cannot be read.
MemoryUsage memory_usage();

/// What the machine could give to programs without swapping, in bytes (MemAvailable of
/// /proc/meminfo). Throws Error(io) where that cannot be read.
std::int64_t available_memory();

}  // namespace fathom
