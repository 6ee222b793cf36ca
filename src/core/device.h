#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fathom {

/// Bytes of one device arena, now and at their highest.
struct MemoryStats {
  std::size_t in_use = 0;
  std::size_t peak = 0;
  std::size_t limit = 0;
};

/// Where tensors live. Memory comes from one arena that is mapped once and reused by every step.
/// Only kernels may look at it, between open() and close(); host code copies values out. A device
/// is driven by one thread.
class Device {
 public:
  virtual ~Device() = default;

  /// 64-byte aligned memory of unspecified content. Throws Error(config) when the arena's limit
  /// would be passed, with both sizes.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) noexcept = 0;

  /// Whether an address lies in this device's arena.
  virtual bool owns(const void* memory) const noexcept = 0;

  /// The host's memory may be reused when a copy returns. copy_to_host() sees the work of every
  /// kernel before it.
  virtual void copy_from_host(void* device_memory, const void* host, std::size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device_memory, std::size_t bytes) = 0;
  virtual void fill_zero(void* device_memory, std::size_t bytes) = 0;

  /// Bracket every access to device memory by kernels and collectives; calls nest. See KernelScope.
  virtual void open() noexcept = 0;
  virtual void close() noexcept = 0;

  /// Blocks until everything that was asked of the device has run. The host has run it already.
  virtual void synchronize() {}
  /// How often the host has waited for the device so far: each wait leaves it idle for a while.
  virtual std::int64_t host_waits() const { return 0; }
  /// Whether the host waits right now; any thread may ask.
  virtual bool waiting() const noexcept { return false; }

  virtual MemoryStats memory() const = 0;
  virtual void reset_peak() = 0;
};

/// Marks the life of one kernel on a device, so that a guarded device can let it in.
class KernelScope {
 public:
  explicit KernelScope(Device& device) : device_(device) { device_.open(); }
  ~KernelScope() { device_.close(); }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  Device& device_;
};

/// The host's memory and cores. `limit_bytes` bounds the arena; 0 means the machine's memory.
std::unique_ptr<Device> make_cpu_device(std::size_t limit_bytes = 0);

/// The same, but its memory is inaccessible outside a KernelScope, so that host code which touches
/// a tensor's memory dies at once. What runs on it is ready for a device with memory of its own.
std::unique_ptr<Device> make_guarded_device(std::size_t limit_bytes);

}  // namespace fathom
