#pragma once

#include "comm/communicator.h"

namespace fathom::test {

/// All ranks of the test's launch. Messages are split at 1,000 bytes, and all-reduces go through
/// shared memory from 2,000 bytes on, so that every test exercises what a user meets at large
/// sizes.
comm::Communicator& world();

}  // namespace fathom::test
