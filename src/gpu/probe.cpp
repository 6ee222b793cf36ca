#include <cstdio>
#include <cuda_runtime_api.h>

#include "kernels/backend.h"

int fathom_probe_devices(char* why_none, std::size_t size) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  std::snprintf(why_none, size, "%s",
                status == cudaSuccess ? "there is no device" : cudaGetErrorString(status));
  return 0;
}
