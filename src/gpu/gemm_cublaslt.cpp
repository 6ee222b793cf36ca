#include <string>

#include "gpu/devices.h"
#include "gpu/gpu_device.h"
#include "kernels/gemm_backend.h"

namespace fathom::kernels {

void multiply(Device& device, const MatrixProduct& product) {
  gpu::GpuDevice& gpu = gpu::gpu_device(device);
  gpu.products().enqueue(product, gpu.stream());
}

// The shapes of all models' layers. For others cuBLASLt has fewer algorithms, not all of which add.
bool adds_bias(std::int64_t n, std::int64_t k) {
  return n % 8 == 0 && k % 8 == 0;
}

const char* gemm_library() {
  static const std::string name = gpu::cublaslt_version();
  return name.c_str();
}

// Every GPU that the kernels are compiled for does (compute capability 8.0 and above).
bool native_bf16() {
  return true;
}

}  // namespace fathom::kernels
