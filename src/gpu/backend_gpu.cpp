#include "core/error.h"
#include "gpu/gpu_device.h"
#include "kernels/gemm.h"

namespace fathom::kernels {
namespace {

std::string runtime_version() {
  int version = 0;
  FATHOM_CUDA(cudaRuntimeGetVersion(&version));
  return str("CUDA ", version / 1000, ".", version % 1000 / 10);
}

}  // namespace

const Backend& backend() {
#if defined(FATHOM_SIM)
  static const Backend gpu{.name = "sim", .details = "kernels on fibers", .owns_memory = true};
#else
  static const Backend gpu{
      .name = "cuda", .details = str(runtime_version(), ", ", gemm_library()), .owns_memory = true};
#endif
  return gpu;
}

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  return std::make_unique<gpu::GpuDevice>(options);
}

Precision precision_of(Device& device) {
  return gpu::gpu_device(device).precision();
}

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string device_identity(int index) {
  char text[32] = {};
  FATHOM_CUDA(cudaDeviceGetPCIBusId(text, sizeof text, index));
  return text;
}

}  // namespace fathom::kernels
