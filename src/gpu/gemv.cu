#include <algorithm>
#include <cstdint>

#include "gpu/gpu_device.h"
#include "gpu/launch.h"
#include "kernels/gemv_product.h"
#include "kernels/rows.h"

// The products of a decoding step read W once and do little with it, so that they run at the speed
// of memory. Each sum is a chain of multiply-adds whose order depends on k, on the layout and type
// of W and on nothing else: a row of y has the same bits whatever the other rows are.

namespace fathom::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;

FATHOM_HOST_DEVICE inline float value(float x) {
  return x;
}
FATHOM_HOST_DEVICE inline float value(bf16 x) {
  return to_float(x);
}

/// kV values that are loaded at once; their address is a multiple of their size.
template <typename T, int kV>
struct alignas(kV * sizeof(T)) Pack {
  T values[kV];
};

template <int kV, typename T>
__device__ Pack<T, kV> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kV>*>(from);
}

// W is [n, k]: a warp multiplies kR rows of W with kB rows of x, 32 kV columns at a time.

/// Floats of x in shared memory: the rows of a block take turns with the columns.
constexpr int kSharedFloats = 8192;

/// Where column i of x lies in shared memory. The kV columns of a lane are a vector of W, of which
/// bf16 has eight: they are kept in two halves, so that the lanes read 16 bytes side by side.
template <int kV>
__device__ int place(int i) {
  if constexpr (kV <= 4) {
    return i;
  } else {
    const int lane = i / kV % 32, v = i % kV;
    return i / (32 * kV) * (32 * kV) + v / 4 * 128 + lane * 4 + v % 4;
  }
}

template <int kV>
__device__ Pack<float, kV> load_columns(const float* x, int step, int lane) {
  if constexpr (kV <= 4) {
    return load_pack<kV>(x + step * 32 * kV + lane * kV);
  } else {
    Pack<float, kV> out;
#pragma unroll
    for (int half = 0; half < kV / 4; ++half) {
      const auto part = load_pack<4>(x + step * 32 * kV + half * 128 + lane * 4);
#pragma unroll
      for (int v = 0; v < 4; ++v) out.values[half * 4 + v] = part.values[v];
    }
    return out;
  }
}

// Adds the products of `count` columns from `begin` on, x being in shared memory.
template <int kV, int kB, int kR, typename W>
__device__ void add_products(const W* const (&w)[kR], std::int64_t begin, int count, const float* x,
                             int x_stride, float (&sums)[kR][kB]) {
  const int lane = threadIdx.x % 32;
  for (int step = 0, i = lane * kV; i < count; ++step, i += 32 * kV) {
    Pack<W, kV> row[kR];
#pragma unroll
    for (int r = 0; r < kR; ++r) row[r] = load_pack<kV>(w[r] + begin + i);
#pragma unroll
    for (int b = 0; b < kB; ++b) {
      const Pack<float, kV> columns = load_columns<kV>(x + b * x_stride, step, lane);
#pragma unroll
      for (int r = 0; r < kR; ++r)
#pragma unroll
        for (int v = 0; v < kV; ++v)
          sums[r][b] = fmaf(value(row[r].values[v]), columns.values[v], sums[r][b]);
    }
  }
}

// The block (g, j) takes rows [g kB, (g + 1) kB) of x and rows [j, j + 1) kWarps kR of W.
template <typename W, int kV, int kB, int kR>
__global__ void __launch_bounds__(kThreads)
    dot_kernel(GemvProduct<W> p, std::int64_t rows, int chunk) {
  FATHOM_DYNAMIC_SHARED(float, x);
  const int lane = threadIdx.x % 32;
  const std::int64_t group = std::int64_t{blockIdx.x} * kB;
  const std::int64_t first = (std::int64_t{blockIdx.y} * kWarps + threadIdx.x / 32) * kR;
  const W* w[kR];
#pragma unroll
  for (int r = 0; r < kR; ++r) w[r] = p.w + (first + r < p.n ? first + r : p.n - 1) * p.w_stride;
  float sums[kR][kB] = {};
  for (std::int64_t begin = 0; begin < p.k; begin += chunk) {
    const int count = static_cast<int>(p.k - begin < chunk ? p.k - begin : chunk);
    __syncthreads();  // the last columns have been used
    for (int b = 0; b < kB; ++b)
      for (int i = threadIdx.x; i < count; i += kThreads)
        x[b * chunk + place<kV>(i)] =
            group + b < rows ? p.x[(group + b) * p.x_stride + begin + i] : 0.0f;
    __syncthreads();
    add_products<kV>(w, begin, count, x, chunk, sums);
  }
#pragma unroll
  for (int r = 0; r < kR; ++r)
#pragma unroll
    for (int b = 0; b < kB; ++b) {
      float sum = sums[r][b];
#pragma unroll
      for (int offset = 16; offset > 0; offset >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
      const bool writes = lane == (r * kB + b) % 32;
      if (writes && first + r < p.n && group + b < rows)
        p.y[(group + b) * p.y_stride + first + r] = sum + (p.bias ? p.bias[first + r] : 0.0f);
    }
}

template <int kV, int kB, int kR, typename W>
void launch_dot(const GemvProduct<W>& p, std::int64_t rows, cudaStream_t stream) {
  constexpr std::int64_t kStep = 32 * kV, kOutputs = kWarps * kR;
  const auto chunk = static_cast<int>(
      std::min<std::int64_t>(kSharedFloats / kB, (p.k + kStep - 1) / kStep * kStep));
  const dim3 grid(static_cast<unsigned>((rows + kB - 1) / kB),
                  static_cast<unsigned>((p.n + kOutputs - 1) / kOutputs));
  gpu::launch(dot_kernel<W, kV, kB, kR>, grid, dim3(kThreads),
              static_cast<std::size_t>(kB) * static_cast<std::size_t>(chunk) * sizeof(float),
              stream, p, rows, chunk);
}

template <int kV, typename W>
void multiply_transposed(const GemvProduct<W>& p, std::int64_t rows, cudaStream_t stream) {
  if (rows == 1) {
    launch_dot<kV, 1, 1>(p, rows, stream);
  } else if (rows <= 4) {
    launch_dot<kV, 4, 2>(p, rows, stream);
  } else {
    launch_dot<kV, 8, 4>(p, rows, stream);
  }
}

// W is [k, n]: a thread adds up kV columns over a part of the rows of W, and the parts are added
// afterwards. Their number depends on k alone, and so do the bits of their total.

constexpr int kRowsAtOnce = 256;

// sums [parts, rows, n]; the block (j, part, g) takes kThreads kV columns and kB rows of x.
template <typename W, int kV, int kB>
__global__ void __launch_bounds__(kThreads)
    weigh_kernel(GemvProduct<W> p, std::int64_t rows, float* sums) {
  FATHOM_SHARED(float, x, kB* kRowsAtOnce);
  const std::int64_t group = std::int64_t{blockIdx.z} * kB;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kV;
  const std::int64_t part = blockIdx.y, parts = gridDim.y;
  const std::int64_t last = p.k * (part + 1) / parts;
  float total[kB][kV] = {};
  for (std::int64_t begin = p.k * part / parts; begin < last; begin += kRowsAtOnce) {
    const int count = static_cast<int>(last - begin < kRowsAtOnce ? last - begin : kRowsAtOnce);
    __syncthreads();
    for (int b = 0; b < kB; ++b)
      for (int i = threadIdx.x; i < count; i += kThreads)
        x[b * kRowsAtOnce + i] =
            group + b < rows ? p.x[(group + b) * p.x_stride + begin + i] : 0.0f;
    __syncthreads();
    for (int i = 0; i < count && column < p.n; ++i) {
      const auto w = load_pack<kV>(p.w + (begin + i) * p.w_stride + column);
#pragma unroll
      for (int b = 0; b < kB; ++b)
#pragma unroll
        for (int v = 0; v < kV; ++v)
          total[b][v] = fmaf(x[b * kRowsAtOnce + i], value(w.values[v]), total[b][v]);
    }
  }
  for (int b = 0; b < kB && group + b < rows && column < p.n; ++b)
#pragma unroll
    for (int v = 0; v < kV; ++v) sums[(part * rows + group + b) * p.n + column + v] = total[b][v];
}

template <int kV, int kB, typename W>
void launch_weigh(const GemvProduct<W>& p, std::int64_t rows, std::int64_t parts, float* sums,
                  cudaStream_t stream) {
  constexpr std::int64_t kColumns = kThreads * kV;
  const dim3 grid(static_cast<unsigned>((p.n + kColumns - 1) / kColumns),
                  static_cast<unsigned>(parts), static_cast<unsigned>((rows + kB - 1) / kB));
  gpu::launch(weigh_kernel<W, kV, kB>, grid, dim3(kThreads), 0, stream, p, rows, sums);
}

template <int kV, typename W>
void multiply_plain(const GemvProduct<W>& p, std::int64_t rows, Device& device) {
  const std::int64_t parts = std::clamp<std::int64_t>(p.k / 64, 1, 32);
  const Tensor scratch = Tensor::empty(device, {parts, rows * p.n});
  float* sums = scratch.ptr<float>();
  if (rows == 1) {
    launch_weigh<kV, 1>(p, rows, parts, sums, gpu::stream_of(device));
  } else {
    launch_weigh<kV, 4>(p, rows, parts, sums, gpu::stream_of(device));
  }
  const std::int64_t n = p.n, y_stride = p.y_stride;
  const float* bias = p.bias;
  float* y = p.y;
  for_each_element(
      device, rows * n, FATHOM_BODY(std::int64_t i) {
        float total = bias ? bias[i % n] : 0.0f;
        for (std::int64_t part = 0; part < parts; ++part) total += sums[part * rows * n + i];
        y[i / n * y_stride + i % n] = total;
      });
}

// Whether every row of W can be read in vectors of 16 bytes.
template <typename W>
bool takes_vectors(const GemvProduct<W>& p, std::int64_t columns) {
  constexpr std::int64_t kV = 16 / sizeof(W);
  return reinterpret_cast<std::uintptr_t>(p.w) % 16 == 0 && p.w_stride % kV == 0 &&
         columns % kV == 0;
}

template <int kV, typename W>
void multiply(const GemvProduct<W>& p, Trans trans_w, std::int64_t rows, Device& device) {
  if (trans_w == Trans::yes) {
    multiply_transposed<kV>(p, rows, gpu::stream_of(device));
  } else {
    multiply_plain<kV>(p, rows, device);
  }
}

}  // namespace

void gemv(const Tensor& x, const Tensor& w, Trans trans_w, const Tensor& bias, const Tensor& y) {
  with_gemv_product(x, w, trans_w, bias, y, [&]<typename W>(const GemvProduct<W>& product) {
    const KernelScope scope(y.device());
    if (takes_vectors(product, w.columns())) {
      multiply<16 / sizeof(W)>(product, trans_w, x.rows(), y.device());
    } else {
      multiply<1>(product, trans_w, x.rows(), y.device());
    }
  });
}

}  // namespace fathom::kernels
