#pragma once

#include <cstdint>

#include "gpu/attention_items.h"
#include "gpu/launch.h"
#include "gpu/vector_access.h"
#include "kernels/attention_checks.h"
#include "kernels/math.h"

// Products of tiles for attention on a GPU. All of attention is of two forms: the scores of a tile
// of rows with a tile of columns, S = R C^T, and sums of the columns by weights, W C. For a forward
// pass rows are queries and columns are keys; for the gradients of keys it is the other way about.
//
// Where the time goes. A score costs 2 * head_dim multiply-adds in the forward pass. Tiles come
// from the second cache: 2 * kTile FLOPs are done per float loaded, 32 per byte for tiles of 64 (a
// H200 that computes 67 TFLOP/s would ask 2.1 TB/s of its cache), so what bounds the kernels is
// what feeds the multiply-adds from shared memory. A warp is 4 x 8 threads, and each thread makes
// kRows x kColumns scores: for a step of 4 in depth it loads kRows + kColumns vectors for 4 * kRows
// * kColumns multiply-adds. All threads of a row load the same vector and those of a column too, so
// a load takes one cycle of the shared memory (128 different bytes at most, in different banks).
// For 4 x 8 scores that is 12 loads for 128 multiply-adds: loads take 9 % of the issue slots and 38
// % of the bandwidth of shared memory (2 x 8: 14 % and 63 %). Softmax adds some ten instructions to
// the 2 * head_dim of a score. By this count, not by measurement, 80 to 85 % of the f32 peak can be
// reached with heads of 64 or 128 on long sequences. Half of a diagonal tile is computed in vain,
// which matters for sequences of few tiles only: a share of 1 / (number of tiles + 1).

namespace fathom::gpu::attention {

/// f32 rows of a tensor, in kernels.
struct Operand {
  Operand(const Tensor& tensor, std::int64_t head_dim)
      : data(tensor.ptr<float>()),
        stride(tensor.row_stride()),
        vectors(head_dim % 4 == 0 && stride % 4 == 0 && vector_aligned(data)) {}

  __device__ float* at(std::int64_t row, std::int64_t column) const {
    return data + row * stride + column;
  }

  float* data;
  std::int64_t stride;
  bool vectors;  ///< whether a vector may be loaded from every fourth column of a head
};

/// Up to four floats of one row of a head, zero from `remaining` on.
__device__ inline float4 load_some(const Operand& from, std::int64_t row, std::int64_t column,
                                   int remaining) {
  const float* p = from.at(row, column);
  if (from.vectors) return load_vector(p);
  return {p[0], remaining > 1 ? p[1] : 0.0f, remaining > 2 ? p[2] : 0.0f,
          remaining > 3 ? p[3] : 0.0f};
}

__device__ inline void store_some(const Operand& to, std::int64_t row, std::int64_t column,
                                  int remaining, float4 value) {
  float* p = to.at(row, column);
  if (to.vectors) {
    store_vector(p, value);
    return;
  }
  p[0] = value.x;
  if (remaining > 1) p[1] = value.y;
  if (remaining > 2) p[2] = value.z;
  if (remaining > 3) p[3] = value.w;
}

/// How a block shares out tiles for heads of at most kDepth floats: chosen so that the sums of a
/// thread stay in registers and five tiles in the shared memory of an A100.
template <int kDepth_>
struct Tiles {
  static constexpr int kDepth = kDepth_;
  static constexpr int kWarps = kDepth == 32 || kDepth == 128 ? 8 : 4;
  static constexpr int kRows = kDepth == 64 ? 4 : 2;  ///< of a thread
  static constexpr int kTile = 4 * kWarps * kRows;    ///< rows, and columns, of a tile
  static constexpr int kGroups = kTile / 32;          ///< of four columns, of a thread
  static constexpr int kColumns = 4 * kGroups;        ///< of a thread
  static constexpr int kVectors = kDepth / 32;        ///< of a row's sums, of a thread
  static constexpr int kThreads = 32 * kWarps;
  /// Blocks of the forward pass that should share a multiprocessor, to hide each other's waits:
  /// what the shared memory of an H100 has room for, if registers are kept to what that leaves.
  static constexpr int kForwardBlocks = kDepth == 64 ? 3 : 2;
  // Four floats more than a power of two, so that vectors of successive rows are in other banks.
  static constexpr int kPitch = kDepth + 4;
  static constexpr int kWeightPitch = kTile + 4;
  static constexpr int kTileFloats = kTile * kPitch;
  static constexpr int kWeightFloats = kTile * kWeightPitch;
  /// Of a tile whose place weights take over.
  static constexpr int kSharedFloats = kTileFloats > kWeightFloats ? kTileFloats : kWeightFloats;

  // Neighbouring rows of a thread are `4` slots apart in shared memory, and so neighbouring threads
  // have neighbouring slots. The same holds for columns, by 8.
  static __device__ int x() { return static_cast<int>(threadIdx.x) % 8; }
  static __device__ int first_row() { return static_cast<int>(threadIdx.x) / 8 * kRows; }
  static __device__ int first_row_slot() {
    const int thread = static_cast<int>(threadIdx.x);
    return thread / 32 * 4 * kRows + thread / 8 % 4;
  }
  static __device__ int row_slot(int row) {
    return row / (4 * kRows) * (4 * kRows) + row % kRows * 4 + row / kRows % 4;
  }
  /// Column c of this thread: four neighbours, and then 32 further on.
  static __device__ int column(int c) { return c / 4 * 32 + 4 * x() + c % 4; }
  static __device__ int column_slot(int column) {
    return column / 32 * 32 + column % 4 * 8 + column % 32 / 4;
  }

  using Scores = float[kRows][kColumns];
  using Sums = float4[kRows][kVectors];
};

/// Calls f(Tiles<...>()) of the smallest tiles that hold heads of this size. Throws Error(internal)
/// above kMostHeadDim, which require_attention() has refused.
template <typename F>
void with_tiles(std::int64_t head_dim, F f) {
  FATHOM_CHECK(head_dim <= kMostHeadDim, "attention on a GPU with heads of ", head_dim);
  if (head_dim <= 32)
    f(Tiles<32>());
  else if (head_dim <= 64)
    f(Tiles<64>());
  else if (head_dim <= 128)
    f(Tiles<128>());
  else
    f(Tiles<256>());
}

/// Rows [row, row + count) of a head to their slots of a tile in shared memory, times `factor`;
/// zeros beyond the count and the depth. kByColumns: slots of columns, not of rows.
template <typename T, bool kByColumns>
__device__ void load_tile(const Operand& from, std::int64_t row, int count, std::int64_t column,
                          int depth, float factor, float* tile) {
  constexpr int kRowVectors = T::kDepth / 4;
#pragma unroll 4
  for (int pass = 0; pass < T::kTile * kRowVectors / T::kThreads; ++pass) {
    const int i = pass * T::kThreads + static_cast<int>(threadIdx.x);
    const int r = i / kRowVectors, d = i % kRowVectors * 4;
    float4 value = {0.0f, 0.0f, 0.0f, 0.0f};
    if (r < count && d < depth) {
      value = load_some(from, row + r, column + d, depth - d);
      value = {factor * value.x, factor * value.y, factor * value.z, factor * value.w};
    }
    const int slot = kByColumns ? T::column_slot(r) : T::row_slot(r);
    store_vector(tile + slot * T::kPitch + d, value);
  }
}

/// This thread's scores of a tile of rows with a tile of columns.
template <typename T>
__device__ void multiply(const float* rows, const float* columns, int depth,
                         typename T::Scores& scores) {
  const float* mine = rows + T::first_row_slot() * T::kPitch;
  const float* theirs = columns + T::x() * T::kPitch;
#pragma unroll
  for (int i = 0; i < T::kRows; ++i) {
#pragma unroll
    for (int c = 0; c < T::kColumns; ++c) scores[i][c] = 0.0f;
  }
#pragma unroll 1
  for (int d = 0; d < depth; d += 4) {
    float4 b[T::kColumns];
#pragma unroll
    for (int c = 0; c < T::kColumns; ++c) b[c] = load_vector(theirs + 8 * c * T::kPitch + d);
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) {
      const float4 a = load_vector(mine + 4 * i * T::kPitch + d);
#pragma unroll
      for (int c = 0; c < T::kColumns; ++c) {
        scores[i][c] += a.x * b[c].x;
        scores[i][c] += a.y * b[c].y;
        scores[i][c] += a.z * b[c].z;
        scores[i][c] += a.w * b[c].w;
      }
    }
  }
}

/// This thread's scores to the tile of weights. Only its own warp reads their rows, in
/// accumulate().
template <typename T>
__device__ void store_weights(const typename T::Scores& scores, float* weights) {
  float* mine = weights + T::first_row_slot() * T::kWeightPitch + 4 * T::x();
#pragma unroll
  for (int i = 0; i < T::kRows; ++i) {
#pragma unroll
    for (int g = 0; g < T::kGroups; ++g) {
      const float* s = scores[i] + 4 * g;
      store_vector(mine + 4 * i * T::kWeightPitch + 32 * g, {s[0], s[1], s[2], s[3]});
    }
  }
}

/// sums += weights times the first `count` columns of a tile; always in the same order.
template <typename T>
__device__ void accumulate(const float* weights, const float* columns, int count,
                           typename T::Sums& sums) {
  const float* mine = weights + T::first_row_slot() * T::kWeightPitch;
#pragma unroll 1
  for (int j = 0; j < count; j += 4) {
    const float* from = columns + T::column_slot(j) * T::kPitch + 4 * T::x();
    float4 weight[T::kRows];
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) weight[i] = load_vector(mine + 4 * i * T::kWeightPitch + j);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int v = 0; v < T::kVectors; ++v) {
        const float4 b = load_vector(from + 8 * e * T::kPitch + 32 * v);
#pragma unroll
        for (int i = 0; i < T::kRows; ++i) {
          const float w = element(weight[i], e);
          sums[i][v].x += w * b.x;
          sums[i][v].y += w * b.y;
          sums[i][v].z += w * b.z;
          sums[i][v].w += w * b.w;
        }
      }
    }
  }
}

template <typename T>
__device__ void clear(typename T::Sums& sums) {
#pragma unroll
  for (int i = 0; i < T::kRows; ++i) {
#pragma unroll
    for (int v = 0; v < T::kVectors; ++v) sums[i][v] = {0.0f, 0.0f, 0.0f, 0.0f};
  }
}

/// Row i of this thread's sums times `factor` to columns [column, column + depth) of a row.
template <typename T>
__device__ void store_sums(const typename T::Sums& sums, int i, float factor, const Operand& to,
                           std::int64_t row, std::int64_t column, int depth) {
#pragma unroll
  for (int v = 0; v < T::kVectors; ++v) {
    const int d = 32 * v + 4 * T::x();
    const float4 s = sums[i][v];
    if (d < depth)
      store_some(to, row, column + d, depth - d,
                 {factor * s.x, factor * s.y, factor * s.z, factor * s.w});
  }
}

__device__ inline int smaller(int a, int b) {
  return a < b ? a : b;
}

/// Over the eight threads that share a row: all get the result.
__device__ inline float row_sum(float value) {
  for (int offset = 4; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__device__ inline float row_max(float value) {
  for (int offset = 4; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, offset);
    value = other > value ? other : value;
  }
  return value;
}

}  // namespace fathom::gpu::attention
