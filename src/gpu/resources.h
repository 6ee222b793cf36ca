#pragma once

#include <cstddef>
#include <cuda_runtime.h>
#include <memory>

#include "gpu/check.h"

// Owners of what the CUDA runtime hands out. Their destructors ignore errors: a failure that
// matters was or will be reported by a call that computes something.

namespace fathom::gpu {

struct Destroy {
  void operator()(cudaStream_t stream) const noexcept {
    static_cast<void>(cudaStreamDestroy(stream));
  }
  void operator()(cudaEvent_t event) const noexcept { static_cast<void>(cudaEventDestroy(event)); }
};
using Stream = std::unique_ptr<CUstream_st, Destroy>;
using Event = std::unique_ptr<CUevent_st, Destroy>;

/// A stream that does not wait for the legacy default stream.
inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  FATHOM_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

/// The same, whose kernels go first where those of several streams are ready to run.
inline Stream make_urgent_stream() {
  int least = 0, greatest = 0;
  FATHOM_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  FATHOM_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  return Stream(stream);
}

/// An event that orders work; one that measures time costs more to record.
inline Event make_event() {
  cudaEvent_t event = nullptr;
  FATHOM_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return Event(event);
}
inline Event make_timing_event() {
  cudaEvent_t event = nullptr;
  FATHOM_CUDA(cudaEventCreateWithFlags(&event, cudaEventDefault));
  return Event(event);
}

struct FreePinned {
  void operator()(std::byte* memory) const noexcept { static_cast<void>(cudaFreeHost(memory)); }
};
struct FreeDevice {
  void operator()(std::byte* memory) const noexcept { static_cast<void>(cudaFree(memory)); }
};
using PinnedMemory = std::unique_ptr<std::byte, FreePinned>;
using DeviceMemory = std::unique_ptr<std::byte, FreeDevice>;

/// Page-locked host memory, which the device copies from and to beside the host's work.
inline PinnedMemory make_pinned(std::size_t bytes) {
  void* memory = nullptr;
  FATHOM_CUDA(cudaMallocHost(&memory, bytes));
  return PinnedMemory(static_cast<std::byte*>(memory));
}

/// Memory of the current device, 256-byte aligned.
inline DeviceMemory make_device_memory(std::size_t bytes) {
  void* memory = nullptr;
  FATHOM_CUDA(cudaMalloc(&memory, bytes));
  return DeviceMemory(static_cast<std::byte*>(memory));
}

}  // namespace fathom::gpu
