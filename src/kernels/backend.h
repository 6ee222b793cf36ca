#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/device.h"
#include "core/device_collectives.h"

// The kernel library is the backend: one shared library with this interface and all of kernels/ for
// the CPU (one for each level of its instruction set), one for CUDA, one for CUDA's stand-in. They
// share a name, and which of them a process runs on is decided by where the dynamic loader finds
// it: no call goes through a table, and a machine without the CUDA toolkit never looks for it.

namespace fathom::kernels {

/// How products of f32 matrices are computed. f32 sums in every case; the CPU knows f32 only.
enum class Precision {
  f32,
  tf32,  ///< factors rounded to 10 bits of mantissa
  bf16   ///< factors rounded to bf16; masters, residual stream, losses and reductions stay f32
};

/// Which library a process is to run on.
enum class DeviceKind {
  automatic,  ///< GPUs where this machine has any that can be used, else the CPU
  cpu,
  cuda,
  sim  ///< the CPU in the part of a GPU, for tests
};

/// The library that this process runs on.
struct Backend {
  std::string name;          ///< "cpu", "cuda" or "sim"
  std::string details;       ///< versions of what it is built on, for people
  bool owns_memory = false;  ///< whether device memory is apart from the host's
};
const Backend& backend();

struct DeviceOptions {
  std::size_t limit_bytes = 0;  ///< of the arena; 0 = all that the device has free
  bool alone = false;           ///< it will be in no group, for which memory would be left
  int index = 0;                ///< which of the node's devices; the CPU ignores it
  Precision precision = Precision::f32;
};

/// A device of this library. Throws Error(config) when there is no such device, or when it cannot
/// give `limit_bytes` (naming what was asked for and what is free), or when it does not know the
/// precision.
std::unique_ptr<Device> make_device(const DeviceOptions& options = {});

/// The precision that a device of this library was made with.
Precision precision_of(Device& device);

/// Devices that this process sees; 0 for the CPU, which is not counted.
int device_count();

/// What keeps the library from running on one of them; empty if nothing does.
std::string why_unusable(int index);

/// A text that tells physical devices of a node apart (a PCI bus id), for people and for finding
/// two ranks on one device.
std::string device_identity(int index);

/// Starts a group of `size` devices, one for each rank, that exchange memory without the host.
/// `id` comes from new_collectives_id() of the group's first rank. `messages`: whether the group
/// sends and receives too, for which it holds connections and memory of their own. Collective over
/// the group; blocks until all are connected. Throws Error(comm). Not for the CPU.
std::string new_collectives_id();
std::unique_ptr<DeviceCollectives> make_collectives(Device& device, const std::string& id, int rank,
                                                    int size, bool messages);

}  // namespace fathom::kernels

/// Exported by the libraries for GPUs, for a program that runs on another library still and has
/// opened this one with dlopen(): how many devices it could use. `why_not` says what is wrong with
/// the others, or why there is none. They call nothing else of the interface, since in such a
/// process that is the other library's.
extern "C" int fathom_probe_devices(char* why_not, std::size_t size);
/// The versions of what it runs on: CUDA's runtime and driver, cuBLASLt, NCCL.
extern "C" void fathom_backend_versions(char* text, std::size_t size);
