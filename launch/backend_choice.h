#pragma once

#include <string>

#include "kernels/backend.h"

namespace fathom::launch {

/// Sees to it that this process runs on the kernel library that `wanted` means. Where another one
/// is loaded, the program starts anew, in the same process and with the same arguments, with the
/// wanted library in front of the loader's path. Called before MPI starts and before anything has
/// been done that must not be done twice. `automatic` stays on whatever library for GPUs is loaded
/// already, takes CUDA's if that finds a device, and else the CPU, which the log then says, and
/// why. Throws Error(config) with the reason when the wanted library cannot be used here, and when
/// `precision` is one that the CPU does not know and the CPU it is.
void choose_backend(kernels::DeviceKind wanted,
                    kernels::Precision precision = kernels::Precision::f32);

/// What `fathom --version` says of backends: the one that runs, and whether each other could.
std::string backends_text();

}  // namespace fathom::launch
