#include "gpu/gpu_device.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/sanitizer.h"
#include "gpu/devices.h"

namespace fathom::gpu {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Left free beside the block, for what others take later. NCCL's communicators take about 10 MiB of
// buffers for each channel: 32 of each that reduces, of which a run has up to five (tp, pp, dp, the
// first and last stage's own, replicas of key-value heads), and 8 of each of the two that carry a
// pipeline's messages. Code is loaded whole where ranks meet (launch/backend_choice.cpp), else when
// a kernel first runs.
constexpr std::size_t kForNccl = std::size_t{10 * (5 * 32 + 2 * 8)} * kMiB;
constexpr std::size_t kForCode = 512 * kMiB, kForLazyCode = 128 * kMiB;

std::size_t reserve(bool alone) {
  return kMatrixWorkspace + (alone ? kForLazyCode : kForNccl + kForCode);
}

// For the address sanitizer, which only the stand-in can be compiled with, each piece of memory
// ends in bytes that nothing may touch. It looks when something is enqueued, so streams must not be
// lazy.
constexpr std::size_t kGap = kAddressSanitizer ? RangeAllocator::kAlignment : 0;

int make_current(int index) {
  const DeviceCount found = count_devices();
  require(found.count > 0, ErrorKind::config, "there is no GPU to run on (", found.why_none,
          "); use run.device=cpu, or a machine with a GPU and its driver");
  require(index >= 0 && index < found.count, ErrorKind::config, "there is no GPU ", index,
          ": this process may use ", found.count, " (see CUDA_VISIBLE_DEVICES)");
  const std::string why = why_unusable(index);
  require(why.empty(), ErrorKind::config, "GPU ", index, " (", bus_id(index), ") ", why);
  FATHOM_CUDA(cudaSetDevice(index));
  return index;
}

std::size_t to_mib(std::size_t bytes) {
  return (bytes + kMiB - 1) / kMiB;
}

// How much of the device a run takes: the limit, or all that is free but for the reserve.
std::size_t block_bytes(const kernels::DeviceOptions& options, int index) {
  std::size_t free = 0, total = 0;
  FATHOM_CUDA(cudaMemGetInfo(&free, &total));
  const std::size_t kept = reserve(options.alone), limit = options.limit_bytes;
  const std::size_t wanted = limit > 0 ? limit : std::max(free, kept) - kept;
  if (wanted == 0 || wanted + kept > free) {
    const std::string asked =
        limit > 0 ? str("run.memory_limit_gib asks for ", to_mib(limit), " MiB, and ") : "";
    fail(
        ErrorKind::config, "out of memory: GPU ", index, " (", bus_id(index), ") has ", free / kMiB,
        " MiB free of ", total / kMiB, " MiB; ", asked, options.alone ? "" : "NCCL, ",
        "matrix products and the code of kernels need ", to_mib(kept),
        " MiB; end what else runs there, or lower run.memory_limit_gib and need less: ", kNeedLess);
  }
  return wanted / RangeAllocator::kAlignment * RangeAllocator::kAlignment;
}

// The stand-in fills what it hands out, so that a kernel which reads what nothing has written
// shows; FATHOM_SIM_POISON=0 is for looking at speed.
bool poisons() {
  const char* setting = std::getenv("FATHOM_SIM_POISON");
  return kernels::backend().name == "sim" &&
         (setting == nullptr || std::string_view(setting) != "0");
}

}  // namespace

GpuDevice::GpuDevice(const kernels::DeviceOptions& options)
    : index_(make_current(options.index)),
      bytes_(block_bytes(options, index_)),
      precision_(options.precision),
      poisoned_(poisons()),
      stream_(make_stream()),
      reached_(make_event()),
      uploads_(wait_),
      downloads_(wait_),
      block_(make_device_memory(bytes_)),
      range_(block_.get(), bytes_) {
  ASAN_POISON_MEMORY_REGION(block_.get(), bytes_);
}

// Work that is still queued uses what is about to be destroyed. Its errors have nobody to go to.
GpuDevice::~GpuDevice() {
  static_cast<void>(cudaStreamSynchronize(stream_.get()));
}

void* GpuDevice::allocate(std::size_t bytes) {
  void* memory = range_.allocate(bytes + kGap);
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
  if (poisoned_ && bytes > 0) FATHOM_CUDA(cudaMemsetAsync(memory, 0xff, bytes, stream_.get()));
  return memory;
}

void GpuDevice::free(void* memory) noexcept {
  ASAN_POISON_MEMORY_REGION(memory, range_.piece_bytes(memory));
  range_.free(memory);
}

void GpuDevice::copy_from_host(void* device_memory, const void* host, std::size_t bytes) {
  uploads_.copy(device_memory, host, bytes, stream_.get());
}

void GpuDevice::copy_to_host(void* host, const void* device_memory, std::size_t bytes) {
  if (bytes == 0) return;
  ++waits_;
  downloads_.copy(host, device_memory, bytes, stream_.get());
}

void GpuDevice::fill_zero(void* device_memory, std::size_t bytes) {
  if (bytes > 0) FATHOM_CUDA(cudaMemsetAsync(device_memory, 0, bytes, stream_.get()));
}

void GpuDevice::synchronize() {
  ++waits_;
  FATHOM_CUDA(cudaEventRecord(reached_.get(), stream_.get()));
  wait_.until(reached_.get());
}

GpuDevice& gpu_device(Device& device) {
  auto* gpu = dynamic_cast<GpuDevice*>(&device);
  FATHOM_CHECK(gpu != nullptr, "a kernel of the ", kernels::backend().name,
               " library was given a device of another; devices come from kernels::make_device()");
  return *gpu;
}

cudaStream_t stream_of(Device& device) {
  return gpu_device(device).stream();
}

}  // namespace fathom::gpu
