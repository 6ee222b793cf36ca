#pragma once

#include <cuda_runtime.h>
#include <string>

namespace fathom::gpu {

/// Options that make a run need less of a device's memory, for messages.
inline constexpr const char* kNeedLess =
    "a smaller batch.micro_batch, memory.recompute=block, model.frozen_dtype=bf16, more ranks "
    "(grid.tp, grid.pp)";

/// "the GPU has 12 MiB free of 81559 MiB", of the current device; empty where CUDA does not answer.
std::string free_memory_text();

/// Throws Error unless the call succeeded, with the call, its place, and CUDA's name and words for
/// what went wrong: of kind config where there is no memory or no device to be had, else internal.
/// Where there is no memory it also says how much is free.
/// Errors of work that was enqueued earlier are reported by whichever call comes after it, so that
/// the message names both possibilities.
void check(cudaError_t status, const char* call, const char* file, int line);

}  // namespace fathom::gpu

/// Makes a call of the CUDA runtime and throws where it failed. The only way in which the runtime
/// is called, but for destructors, which have nobody to tell.
#define FATHOM_CUDA(call) ::fathom::gpu::check((call), #call, __FILE__, __LINE__)
