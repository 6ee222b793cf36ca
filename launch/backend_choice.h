#pragma once

#include <string>

#include "kernels/backend.h"

namespace fathom::launch {

/// Sees to it that this process runs on the kernel library that `wanted` means. Where another one
/// is loaded, the program starts anew, in the same process and with the same arguments, with the
/// wanted library in front of the loader's path. Called before MPI starts and before anything has
/// been done that must not be done twice. `automatic` takes CUDA (or the library for GPUs that is
/// loaded already) if that can use as many devices as the launcher has started ranks on this node,
/// or the one device that the launcher may have given each rank; else the CPU, which the log then
/// says, and why. Throws Error(config) with the reason when the wanted library cannot be used here,
/// and when `precision` is one that the CPU does not know and the CPU it is.
void choose_backend(kernels::DeviceKind wanted,
                    kernels::Precision precision = kernels::Precision::f32);

/// Why choose_backend() was left with the CPU in this process; empty if it was not.
const std::string& why_no_gpu();

/// Sets what CUDA and NCCL read of the environment when they are first called, unless it is set:
/// connections enough that the streams of a rank do not wait for each other in one queue of the
/// device, and, with several ranks, kernels that are loaded at the start. Loading one when it first
/// runs may wait for the device, and the device for a peer whose turn comes only then.
void set_cuda_environment(int ranks);

/// What `fathom --version` says of backends: the one that runs, and whether each other could.
std::string backends_text();

}  // namespace fathom::launch
