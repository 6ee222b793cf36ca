#pragma once

#include <cstddef>
#include <string>

// What CUDA finds on this machine. Calls nothing of kernels/ and makes no context: a program that
// runs on another library asks this one (fathom_probe_devices).

namespace fathom::gpu {

struct DeviceCount {
  int count = 0;
  std::string why_none;  ///< where it is 0
};
DeviceCount count_devices();

/// What keeps the kernels from running on a device; empty if nothing does.
std::string why_unusable(int index);

/// A device's PCI bus id.
std::string bus_id(int index);

/// Shared memory that a block may have if its kernel opts in, in bytes.
std::size_t most_shared_bytes(int index);

/// "cuBLASLt 13.1.0".
std::string cublaslt_version();

/// "CUDA 13.0, driver of CUDA 13.1, cuBLASLt 13.1.0, NCCL 2.28.9".
std::string versions();

}  // namespace fathom::gpu
