#include <cstring>
#include <string>

#include "gpu/sim/fault.h"
#include "gpu/sim/memory.h"
#include "gpu/sim/stream_queue.h"
#include "gpu/sim/streams.h"

// The runtime's memory: allocation, copies, fills. A copy on a stream reads and writes when it
// runs, be the host's side page-locked or not: CUDA promises no more.

using namespace fathom::gpu;

namespace {

// Runs work on a stream, and waits for it unless the call is asynchronous.
template <typename Work>
cudaError_t run_on(cudaStream_t stream, bool wait, Work work) {
  sim::enqueue(stream, std::move(work));
  if (wait) sim::wait_for(*sim::put_mark(stream));
  return sim::fault_or(cudaSuccess);
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream, bool wait) {
  const auto lock = sim::lock_runtime();
  if (sim::faulted()) return cudaErrorLaunchFailure;
  if (!sim::is_stream(stream)) return sim::refuse(cudaErrorInvalidResourceHandle, "copy: stream");
  if (bytes == 0) return cudaSuccess;
  if (const cudaError_t status = sim::check_copy(to, from, bytes, kind); status != cudaSuccess)
    return status;
  return run_on(stream, wait, [=] { std::memcpy(to, from, bytes); });
}

cudaError_t fill(void* begin, int value, std::size_t bytes, cudaStream_t stream, bool wait) {
  const auto lock = sim::lock_runtime();
  if (sim::faulted()) return cudaErrorLaunchFailure;
  if (!sim::is_stream(stream)) return sim::refuse(cudaErrorInvalidResourceHandle, "fill: stream");
  if (bytes == 0) return cudaSuccess;
  if (const auto status = sim::check_device_range("cudaMemset", begin, bytes);
      status != cudaSuccess)
    return status;
  return run_on(stream, wait, [=] { std::memset(begin, value, bytes); });
}

cudaError_t release(const char* call, void* memory, sim::Home home) {
  const auto lock = sim::lock_runtime();
  if (!memory) return sim::fault_or(cudaSuccess);
  // As on a device: memory may be in use until all that was enqueued has run.
  sim::wait_for_device(sim::current_device());
  if (!sim::free_memory(memory, home))
    return sim::refuse(cudaErrorInvalidValue,
                       std::string(call) + ": not what an allocation returned, or freed before");
  return sim::fault_or(cudaSuccess);
}

}  // namespace

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const auto lock = sim::lock_runtime();
  if (sim::faulted()) return cudaErrorLaunchFailure;
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  *memory = sim::allocate_device(sim::current_device(), bytes);
  if (*memory) return cudaSuccess;
  const sim::MemoryInUse now = sim::device_memory(sim::current_device());
  return sim::refuse(cudaErrorMemoryAllocation, std::to_string(bytes) + " bytes, of " +
                                                    std::to_string(now.limit - now.bytes) +
                                                    " that are free");
}

cudaError_t cudaFree(void* memory) {
  return release("cudaFree", memory, sim::Home::device);
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned int /*flags*/) {
  const auto lock = sim::lock_runtime();
  *memory = bytes == 0 ? nullptr : sim::allocate_pinned(bytes);
  return sim::fault_or(cudaSuccess);
}

cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* memory) {
  return release("cudaFreeHost", memory, sim::Home::pinned);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const auto lock = sim::lock_runtime();
  const sim::MemoryInUse now = sim::device_memory(sim::current_device());
  *free = now.limit - now.bytes;
  *total = now.limit;
  return sim::fault_or(cudaSuccess);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy(to, from, bytes, kind, nullptr, true);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy(to, from, bytes, kind, stream, false);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  const auto lock = sim::lock_runtime();
  if (width > to_pitch || width > from_pitch)
    return sim::refuse(cudaErrorInvalidValue, "cudaMemcpy2DAsync: rows wider than their pitch");
  for (size_t row = 0; row < height; ++row) {
    const auto status =
        copy(static_cast<std::byte*>(to) + row * to_pitch,
             static_cast<const std::byte*>(from) + row * from_pitch, width, kind, stream, false);
    if (status != cudaSuccess) return status;
  }
  return sim::fault_or(cudaSuccess);
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return fill(memory, value, bytes, nullptr, true);
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return fill(memory, value, bytes, stream, false);
}
