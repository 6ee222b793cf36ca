#pragma once

// The GPU's side of kernels/rows.h: a row is a thread block. Included by rows.h only.

#include <cstdint>

#include "core/device.h"
#include "gpu/gpu_device.h"
#include "gpu/launch.h"

namespace fathom::kernels {

constexpr int kBlockThreads = 256;

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
    return reduce(total, SumOp{});
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
    return {reduce(total.a, SumOp{}), reduce(total.b, SumOp{}), reduce(total.c, SumOp{})};
  }

  template <typename F>
  __device__ float max(std::int64_t n, F f) const {
    float largest = -3.402823466e38f;
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) largest = fmaxf(largest, f(i));
    return reduce(largest, MaxOp{});
  }

  __device__ void sync() const { __syncthreads(); }

 private:
  // Warps reduce by shuffles, then the first warp reduces one value of each warp.
  template <typename Op>
  __device__ float reduce(float value, Op op) const {
    for (int offset = 16; offset > 0; offset >>= 1)
      value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
    __syncthreads();  // the scratch of the previous reduction has been read
    if (threadIdx.x % 32 == 0) scratch_[threadIdx.x / 32] = value;
    __syncthreads();
    float result = scratch_[0];
    for (unsigned w = 1; w < blockDim.x / 32; ++w) result = op(result, scratch_[w]);
    return result;
  }

  float* scratch_;
};

template <typename Body>
__global__ void __launch_bounds__(kBlockThreads) row_kernel(std::int64_t rows, Body body) {
  FATHOM_SHARED(float, scratch, kBlockThreads / 32);
  const Row row(scratch);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) body(row, r);
}

template <typename Body>
void for_each_row(Device& device, std::int64_t rows, std::int64_t /*columns*/, Body body) {
  if (rows == 0) return;
  KernelScope scope(device);
  const auto blocks = static_cast<unsigned>(rows < 65535 ? rows : 65535);
  gpu::launch(row_kernel<Body>, blocks, kBlockThreads, 0, gpu::stream_of(device), rows, body);
}

}  // namespace fathom::kernels
