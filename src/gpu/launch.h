#pragma once

#include <cstddef>
#include <cuda_runtime.h>
#include <type_traits>

#include "core/error.h"

// How a kernel is launched and how it names shared memory, in the spelling that nvcc and the fibers
// of gpu/sim both know. A kernel uses nothing else of CUDA's extensions but what sim/intrinsics.h
// lists; it is launched with whole warps and never returns before a barrier or shuffle for part of
// a warp.

#if defined(FATHOM_SIM)
#include "gpu/sim/intrinsics.h"  // threadIdx and its kin, barriers, shuffles, FATHOM_SHARED
#include "gpu/sim/kernel_launch.h"
#else
/// An array of shared memory of a size known at compile time, or of the launch's: one a kernel.
#define FATHOM_SHARED(type, name, count) __shared__ type name[count]
#define FATHOM_DYNAMIC_SHARED(type, name)                          \
  extern __shared__ __align__(16) unsigned char fathom_dynamic_[]; \
  type* const name = reinterpret_cast<type*>(fathom_dynamic_)
#endif

namespace fathom::gpu {

/// Dynamic shared memory beyond this is given to kernels that ask for it only.
constexpr std::size_t kSharedWithoutOptIn = 48 << 10;

/// Enqueues kernel(args...) on a stream with `shared_bytes` of dynamic shared memory, opting in to
/// what they need. Throws Error(internal) with CUDA's reason when the launch is refused.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments... arguments) {
  if (shared_bytes > kSharedWithoutOptIn) {
    const cudaError_t status = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                    static_cast<int>(shared_bytes));
    FATHOM_CHECK(status == cudaSuccess, "shared memory: ", cudaGetErrorString(status));
  }
#if defined(FATHOM_SIM)
  sim::launch(kernel, grid, block, shared_bytes, stream, static_cast<Parameters>(arguments)...);
#else
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  const cudaError_t status =
      cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
  FATHOM_CHECK(status == cudaSuccess, "kernel launch: ", cudaGetErrorString(status));
#endif
}

}  // namespace fathom::gpu
