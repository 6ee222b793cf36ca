#pragma once

#include "core/device.h"

namespace fathom::kernels {

/// GFLOP/s that an f32 GEMM of a size that suits this machine reaches with the threads of the
/// caller: the best of a few runs, about a fifth of a second in all. What a training step is
/// measured by.
double measure_gemm_peak_gflops(Device& device);

/// GB/s at which the threads of the caller read memory: the best of several passes over 512 MiB in
/// a fifth of a second. What decoding is measured by.
double measure_read_bandwidth(Device& device);

}  // namespace fathom::kernels
