#pragma once

#include <memory>

#include "core/device.h"
#include "kernels/backend.h"

namespace fathom::test {

/// A device for tests in which kernels run: of whatever kernel library is loaded, so that a GPU and
/// its stand-in are tested by the same binary. A single rank on the CPU gets memory that only
/// kernels can touch. Ranks of one machine take a device each.
inline std::unique_ptr<Device> make_test_device(std::size_t limit_bytes, int rank = 0,
                                                int ranks = 1) {
  if (!kernels::backend().owns_memory && ranks == 1) return make_guarded_device(limit_bytes);
  const int devices = kernels::device_count();
  return kernels::make_device(
      {.limit_bytes = limit_bytes, .index = devices == 0 ? 0 : rank % devices});
}

}  // namespace fathom::test
