#pragma once

#include <cuda_runtime.h>

#include "core/device.h"

namespace fathom::gpu {

class GpuDevice;

/// The stream on which kernels of a device run, in the order of their launches. The device must be
/// one of make_device() of this library.
cudaStream_t stream_of(Device& device);

}  // namespace fathom::gpu
