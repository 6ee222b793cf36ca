#pragma once

#include <cstddef>
#include <cuda_runtime.h>
#include <optional>

// The address spaces of the simulated devices, and page-locked host memory. All functions are
// called by the holder of the runtime's lock (stream_queue.h).

namespace fathom::gpu::sim {

enum class Home { pinned, device };

/// One live allocation.
struct MemoryRange {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  Home home = Home::device;
  int device = 0;  ///< of device memory
};

/// The allocation that an address lies in; its end counts as inside, as for an empty part.
std::optional<MemoryRange> find_range(const void* address);

/// Whether an address belongs to a device, be it allocated or not.
bool in_device_space(const void* address);

/// Device memory, filled with 0xff (NaN) without touching it: pages cost the machine nothing until
/// they are written. A page that nothing may touch follows. nullptr when the device is full.
void* allocate_device(int device, std::size_t bytes);
/// Page-locked memory, filled with 0xff.
void* allocate_pinned(std::size_t bytes);
/// False unless `memory` is what the allocation of that home returned. Freed device memory kills
/// who touches it.
bool free_memory(void* memory, Home home);

struct MemoryInUse {
  std::size_t bytes = 0;
  std::size_t limit = 0;
};
MemoryInUse device_memory(int device);

/// cudaSuccess if a copy is right in kind and bounds; otherwise an error whose reason has been
/// noted.
cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
/// The same for memory that the device alone writes to.
cudaError_t check_device_range(const char* call, const void* begin, std::size_t bytes);

/// While one lives, device memory is accessible. Outside of all, with FATHOM_SIM_PROTECT=1, who
/// touches it dies, as it would on a machine whose GPUs have memory of their own.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace fathom::gpu::sim
