#pragma once

#include "comm/communicator.h"

namespace fathom::test {

/// All ranks of the test's launch. Messages are split at 1,000 bytes, so that every test exercises
/// the splitting that a user meets beyond a gigabyte.
comm::Communicator& world();

}  // namespace fathom::test
