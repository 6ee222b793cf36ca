#pragma once

// The GPU's side of kernels/rows.h: a row is a thread block. Included by rows.h only.

#include <cstdint>

#include "core/device.h"
#include "gpu/gpu_device.h"
#include "gpu/launch.h"

namespace fathom::kernels {

constexpr unsigned kBlockThreads = 256;
constexpr unsigned kWarpLanes = 32;

/// Columns of a row of a kernel that goes down a matrix: one a thread, so that there are many blocks.
constexpr std::int64_t kColumnBlock = kBlockThreads;

struct SumOp {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct MaxOp {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

class Row {
 public:
  __device__ explicit Row(float* scratch) : scratch_(scratch) {}

  template <typename F>
  __device__ void each(std::int64_t n, F f) const {
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) f(i);
  }

  template <typename F>
  __device__ float sum(std::int64_t n, F f) const {
    float total = 0.0f;
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) total += f(i);
    float sum[1] = {total};
    reduce(sum, SumOp{});
    return sum[0];
  }

  template <typename F>
  __device__ Triple sums(std::int64_t n, F f) const {
    Triple total;
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const Triple term = f(i);
      total.a += term.a;
      total.b += term.b;
      total.c += term.c;
    }
    float sums[3] = {total.a, total.b, total.c};
    reduce(sums, SumOp{});
    return {sums[0], sums[1], sums[2]};
  }

  template <typename F>
  __device__ float max(std::int64_t n, F f) const {
    float largest = -3.402823466e38f;
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) largest = fmaxf(largest, f(i));
    float max[1] = {largest};
    reduce(max, MaxOp{});
    return max[0];
  }

  __device__ void sync() const { __syncthreads(); }

 private:
  // Warps reduce by shuffles, then every thread reduces one value of each warp, all in the same
  // order. Several values share the barriers.
  template <int N, typename Op>
  __device__ void reduce(float (&values)[N], Op op) const {
    for (int offset = kWarpLanes / 2; offset > 0; offset >>= 1)
      for (float& value : values) value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
    __syncthreads();  // the scratch of the previous reduction has been read
    if (threadIdx.x % kWarpLanes == 0)
      for (int k = 0; k < N; ++k) scratch_[threadIdx.x / kWarpLanes * N + k] = values[k];
    __syncthreads();
    for (int k = 0; k < N; ++k) values[k] = scratch_[k];
    for (unsigned w = 1; w < blockDim.x / kWarpLanes; ++w)
      for (int k = 0; k < N; ++k) values[k] = op(values[k], scratch_[w * N + k]);
  }

  float* scratch_;
};

template <typename Body>
__global__ void __launch_bounds__(kBlockThreads) row_kernel(std::int64_t rows, Body body) {
  FATHOM_SHARED(float, scratch, kBlockThreads / kWarpLanes * 3);
  const Row row(scratch);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) body(row, r);
}

// A thread for each column, in whole warps, as far as a block goes.
inline unsigned row_threads(std::int64_t columns) {
  if (columns >= kBlockThreads) return kBlockThreads;
  const auto warps = static_cast<unsigned>(columns + kWarpLanes - 1) / kWarpLanes;
  return warps == 0 ? kWarpLanes : warps * kWarpLanes;
}

template <typename Body>
void for_each_row(Device& device, std::int64_t rows, std::int64_t columns, Body body) {
  if (rows == 0) return;
  KernelScope scope(device);
  const auto blocks = static_cast<unsigned>(rows < 65535 ? rows : 65535);
  gpu::launch(row_kernel<Body>, blocks, row_threads(columns), 0, gpu::stream_of(device), rows,
              body);
}

}  // namespace fathom::kernels
