#pragma once

#include <cuda_runtime.h>
#include <functional>
#include <utility>

#include "core/range_allocator.h"
#include "gpu/matrix_products.h"
#include "gpu/staging.h"
#include "kernels/backend.h"

namespace fathom::gpu {

/// One GPU: one block of its memory that is taken at the start and handed out best-fit, one stream
/// on which kernels, memsets and staged copies run in the order in which they were asked for. A
/// piece that is freed may be handed out again at once, since whatever uses it next comes later on
/// the stream. The host runs ahead; it waits in copy_to_host() and synchronize(), and where an
/// upload finds the ring of pinned memory full.
class GpuDevice final : public Device {
 public:
  /// Makes the device current for the calling thread, which is the one that must drive it.
  explicit GpuDevice(const kernels::DeviceOptions& options);
  ~GpuDevice() override;

  void* allocate(std::size_t bytes) override;
  void free(void* memory) noexcept override;
  bool owns(const void* memory) const noexcept override { return range_.owns(memory); }

  void copy_from_host(void* device_memory, const void* host, std::size_t bytes) override;
  void copy_to_host(void* host, const void* device_memory, std::size_t bytes) override;
  void fill_zero(void* device_memory, std::size_t bytes) override;

  void open() noexcept override {}
  void close() noexcept override {}

  void synchronize() override;
  std::int64_t host_waits() const override { return waits_ + uploads_.waits(); }
  bool waiting() const noexcept override { return wait_.waiting(); }

  /// How the host waits for this device and for others that it is in a group with.
  HostWait& host_wait() { return wait_; }

  /// A check is called now and then while the host waits, and ends the wait where it throws. The
  /// number that is returned takes it away again.
  int add_wait_check(std::function<void()> check) { return wait_.add_check(std::move(check)); }
  void remove_wait_check(int id) noexcept { wait_.remove_check(id); }

  MemoryStats memory() const override { return range_.stats(); }
  void reset_peak() override { range_.reset_peak(); }

  int index() const { return index_; }
  kernels::Precision precision() const { return precision_; }
  cudaStream_t stream() const { return stream_.get(); }
  MatrixProducts& products() { return products_; }

 private:
  int index_;
  std::size_t bytes_;  // of the block: settled before anything else takes of the device's memory
  kernels::Precision precision_;
  bool poisoned_;  // whether memory is filled with NaN before it is handed out
  Stream stream_;
  Event reached_;  // for synchronize()
  HostWait wait_;
  MatrixProducts products_;
  UploadRing uploads_;
  DownloadBuffer downloads_;
  DeviceMemory block_;
  RangeAllocator range_;
  std::int64_t waits_ = 0;
};

/// The device as what it is. It must be one of make_device() of this library.
GpuDevice& gpu_device(Device& device);

/// The stream on which kernels of a device run, in the order of their launches.
cudaStream_t stream_of(Device& device);

}  // namespace fathom::gpu
