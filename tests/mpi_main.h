#pragma once

#include "comm/communicator.h"
#include "tests/support/test_device.h"

namespace fathom::test {

/// All ranks of the test's launch. Messages are split at 1,000 bytes, and all-reduces go through
/// shared memory from 2,000 bytes on, so that every test exercises what a user meets at large
/// sizes.
comm::Communicator& world();

/// This rank's device; see make_test_device().
inline std::unique_ptr<Device> make_device(std::size_t limit_bytes) {
  return make_test_device(limit_bytes, world().rank(), world().size());
}

}  // namespace fathom::test
