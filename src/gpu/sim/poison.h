#pragma once

// What device and shared memory holds before a kernel writes to it, and how the address sanitizer,
// where it is on, is told which bytes may be touched.

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#endif

namespace fathom::gpu::sim {

/// Every byte: as a float a NaN.
constexpr int kPoison = 0xff;

}  // namespace fathom::gpu::sim
