#include "gpu/gpu_device.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.h"

namespace fathom::gpu {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Left free when the device's memory is taken whole. NCCL takes about 10 MiB of buffers for each
// channel: up to 32 of each communicator that reduces, of which a run has up to four (tp, pp, dp,
// and the first and last stage's own), and 8 of the two that carry a pipeline's messages. The rest
// is for the code of kernels, which is loaded when they first run.
constexpr std::size_t kReserve = std::size_t{1792} * kMiB;

// What the kernels are compiled for, and what multiplies bf16 and TF32.
constexpr int kLeastCapability = 8;

int make_current(int index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  require(status == cudaSuccess && count > 0, ErrorKind::config, "there is no GPU to run on (",
          status == cudaSuccess ? "CUDA finds none" : cudaGetErrorString(status),
          "); use run.device=cpu, or a machine with a GPU and its driver");
  require(index >= 0 && index < count, ErrorKind::config, "there is no GPU ", index,
          ": this process may use ", count, " (see CUDA_VISIBLE_DEVICES)");
  int major = 0, minor = 0;
  FATHOM_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
  FATHOM_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
  require(major >= kLeastCapability, ErrorKind::config, "GPU ", index, " (",
          kernels::device_identity(index), ") has compute capability ", major, ".", minor,
          "; the kernels are for ", kLeastCapability, ".0 (A100) and above");
  FATHOM_CUDA(cudaSetDevice(index));
  return index;
}

std::size_t to_mib(std::size_t bytes) {
  return (bytes + kMiB - 1) / kMiB;
}

// How much of the device a run takes: the limit, or all that is free but for the reserve.
std::size_t block_bytes(std::size_t limit, int index) {
  std::size_t free = 0, total = 0;
  FATHOM_CUDA(cudaMemGetInfo(&free, &total));
  const std::size_t wanted = limit > 0 ? limit : std::max(free, kReserve) - kReserve;
  if (wanted == 0 || wanted > free) {
    const std::string asked = limit > 0
                                  ? str("run.memory_limit_gib asks for ", to_mib(limit), " MiB")
                                  : str("NCCL and kernels need ", to_mib(kReserve), " MiB of it");
    fail(ErrorKind::config, "out of memory: GPU ", index, " (", kernels::device_identity(index),
         ") has ", free / kMiB, " MiB free of ", total / kMiB, " MiB, and ", asked,
         "; end what else runs there, or lower run.memory_limit_gib and need less: a smaller ",
         "batch.micro_batch, memory.recompute=block, model.frozen_dtype=bf16, more ranks ",
         "(grid.tp, grid.pp)");
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
      precision_(options.precision),
      poisoned_(poisons()),
      stream_(make_stream()),
      reached_(make_event()),
      uploads_(wait_),
      downloads_(wait_),
      range_(nullptr, 0) {
  const std::size_t bytes = block_bytes(options.limit_bytes, index_);
  block_ = make_device_memory(bytes);
  range_ = RangeAllocator(block_.get(), bytes);
}

// Work that is still queued uses what is about to be destroyed. Its errors have nobody to go to.
GpuDevice::~GpuDevice() {
  static_cast<void>(cudaStreamSynchronize(stream_.get()));
}

void* GpuDevice::allocate(std::size_t bytes) {
  void* memory = range_.allocate(bytes);
  if (poisoned_ && bytes > 0) FATHOM_CUDA(cudaMemsetAsync(memory, 0xff, bytes, stream_.get()));
  return memory;
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
