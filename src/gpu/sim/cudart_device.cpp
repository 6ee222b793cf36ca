#include <cstdio>
#include <cstring>
#include <string>

#include "gpu/sim/block.h"
#include "gpu/sim/fault.h"
#include "gpu/sim/settings.h"
#include "gpu/sim/stream_queue.h"

// The runtime's devices: like an H100 in what a program can ask for, unless settings() say
// otherwise, and alike but for their bus id.

using namespace fathom::gpu;

namespace {

cudaError_t check_device(const char* call, int device) {
  const int devices = sim::settings().devices;
  if (device >= 0 && device < devices) return sim::fault_or(cudaSuccess);
  return sim::refuse(
      cudaErrorInvalidDevice,
      std::string(call) + ": device " + std::to_string(device) + " of " + std::to_string(devices));
}

int bus_of(int device) {
  return 0x10 + device;
}

}  // namespace

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = sim::settings().devices;
  return *count > 0 ? sim::fault_or(cudaSuccess)
                    : sim::refuse(cudaErrorNoDevice, "FATHOM_SIM_DEVICES is 0");
}

cudaError_t cudaSetDevice(int device) {
  const cudaError_t status = check_device("cudaSetDevice", device);
  if (status == cudaSuccess) sim::current_device() = device;
  return status;
}

cudaError_t cudaGetDevice(int* device) {
  *device = sim::current_device();
  return sim::fault_or(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t status = check_device("cudaGetDeviceProperties", device);
      status != cudaSuccess)
    return status;
  *properties = {};
  std::strcpy(properties->name, "Fathom simulated device");
  properties->major = sim::settings().capability / 10;
  properties->minor = sim::settings().capability % 10;
  properties->totalGlobalMem = sim::settings().device_bytes;
  properties->multiProcessorCount = 132;
  properties->warpSize = static_cast<int>(sim::kWarp);
  properties->maxThreadsPerBlock = static_cast<int>(sim::kMaxThreads);
  properties->sharedMemPerBlock = sim::kStaticSharedBytes;
  properties->sharedMemPerBlockOptin = sim::settings().shared_bytes();
  properties->pciBusID = bus_of(device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (const cudaError_t status = check_device("cudaDeviceGetAttribute", device);
      status != cudaSuccess)
    return status;
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, device);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
    default:
      return sim::refuse(cudaErrorNotSupported,
                         "cudaDeviceGetAttribute: attribute " + std::to_string(attribute));
  }
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (const cudaError_t status = check_device("cudaDeviceGetPCIBusId", device);
      status != cudaSuccess)
    return status;
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0",
                static_cast<unsigned>(bus_of(device)));
  return cudaSuccess;
}
