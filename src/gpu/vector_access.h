#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#include "core/error.h"

// Four floats at a time.

namespace fathom::gpu {

/// Whether float4 accesses may start at an address; a GPU faults where they may not.
__host__ __device__ inline bool vector_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(float4) == 0;
}

/// The four floats at an address that is vector_aligned().
__device__ inline float4 load_vector(const float* from) {
#if defined(FATHOM_SIM)
  FATHOM_CHECK(vector_aligned(from), "four floats are read at ", static_cast<const void*>(from));
#endif
  return *reinterpret_cast<const float4*>(from);
}

__device__ inline void store_vector(float* to, float4 value) {
#if defined(FATHOM_SIM)
  FATHOM_CHECK(vector_aligned(to), "four floats are written at ", static_cast<void*>(to));
#endif
  *reinterpret_cast<float4*>(to) = value;
}

/// Element i of a vector; i must be known once loops are unrolled.
__device__ inline float element(float4 vector, int i) {
  return i == 0 ? vector.x : i == 1 ? vector.y : i == 2 ? vector.z : vector.w;
}

}  // namespace fathom::gpu
