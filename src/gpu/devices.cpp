#include "gpu/devices.h"

#include <cublasLt.h>
#include <nccl.h>

#include "core/error.h"
#include "gpu/check.h"

namespace fathom::gpu {
namespace {

// What the kernels are compiled for, and what multiplies bf16 and TF32.
constexpr int kLeastCapability = 8;

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  FATHOM_CUDA(cudaDeviceGetAttribute(&value, which, index));
  return value;
}

// CUDA's way of writing a version as one number.
std::string cuda_version(int version) {
  return str(version / 1000, ".", version % 1000 / 10);
}

std::string driver_version() {
  int version = 0;
  FATHOM_CUDA(cudaDriverGetVersion(&version));
  return version == 0 ? "no driver" : "driver of CUDA " + cuda_version(version);
}

std::string nccl_version() {
  int version = 0;
  const ncclResult_t status = ncclGetVersion(&version);
  FATHOM_CHECK(status == ncclSuccess, "ncclGetVersion: ", ncclGetErrorString(status));
  return str("NCCL ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace

DeviceCount count_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return {0, cudaGetErrorString(status)};
  return {count, count > 0 ? "" : "CUDA finds none"};
}

std::string why_unusable(int index) {
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, index);
  if (major >= kLeastCapability) return "";
  return str("has compute capability ", major, ".",
             attribute(cudaDevAttrComputeCapabilityMinor, index), "; the kernels are for ",
             kLeastCapability, ".0 (A100) and above");
}

std::string bus_id(int index) {
  char text[32] = {};
  FATHOM_CUDA(cudaDeviceGetPCIBusId(text, sizeof text, index));
  return text;
}

std::size_t most_shared_bytes(int index) {
  return static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index));
}

std::string cublaslt_version() {
  const std::size_t version = cublasLtGetVersion();
  return str("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::string versions() {
  int runtime = 0;
  FATHOM_CUDA(cudaRuntimeGetVersion(&runtime));
  return str("CUDA ", cuda_version(runtime), ", ", driver_version(), ", ", cublaslt_version(), ", ",
             nccl_version());
}

}  // namespace fathom::gpu
