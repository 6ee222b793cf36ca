#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom::gpu::sim {

/// Starts a launch: no array of shared memory has a place yet.
void begin_shared(std::size_t dynamic_bytes);

/// Starts a block: overwrites all that the launch has used so far.
void poison_shared();

}  // namespace fathom::gpu::sim
