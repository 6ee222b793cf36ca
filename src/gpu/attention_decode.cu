#include <algorithm>

#include "gpu/attention_tiles.cuh"
#include "kernels/rows.h"

// One query a sequence: what counts is to read the cache once and with enough loads in flight. A
// cache is cut into runs of keys of fixed length, so that few sequences still occupy the device and
// the bits do not depend on their number; the partial results of a head are then merged in order.
// Query heads of one key head share its block, up to four of them.

namespace fathom::gpu::attention {
namespace {

constexpr int kRun = 256;       // keys of a block
constexpr int kWarps = 4;       // of a block
constexpr int kHeads = kWarps;  // of a block: a warp makes the softmax of one
constexpr int kBatch = 4;       // keys that a thread loads before it uses them

// A key is read by kLanes neighbouring threads, kVectors vectors each.
template <int kDepth_>
struct Lanes {
  static constexpr int kDepth = kDepth_;
  static constexpr int kLanes = kDepth >= 128 ? 32 : kDepth / 4;
  static constexpr int kVectors = kDepth / (4 * kLanes);
  static constexpr int kParts = 32 * kWarps / kLanes;  // keys that a block reads at once

  static __device__ int part() { return static_cast<int>(threadIdx.x) / kLanes; }
  /// First of the columns of vector v of this thread.
  static __device__ int column(int v) {
    return 4 * (v * kLanes + static_cast<int>(threadIdx.x) % kLanes);
  }
};

struct Decode {
  Operand q, keys, values;  // the caches as rows [slots * capacity, kv_heads * depth]
  const std::int32_t *slots, *lengths;
  float* partials;  // [sequences, heads, runs, 2 + depth]: largest score, sum, weighted values
  std::int64_t capacity;
  int heads, kv_heads, depth, runs, chunks;  // chunks of kHeads query heads that share a key head
  int window;                                // 0: none
  float scale;
};

// What a block does, from its number.
struct Run {
  int sequence, kv_head, first_head, heads, index, count;
  std::int64_t row;  // of the first key, in the caches

  __device__ Run(const Decode& in, unsigned block) {
    index = static_cast<int>(block % static_cast<unsigned>(in.runs));
    const int rest = static_cast<int>(block / static_cast<unsigned>(in.runs));
    const int group = in.heads / in.kv_heads, chunk = rest % in.chunks;
    kv_head = rest / in.chunks % in.kv_heads;
    sequence = rest / in.chunks / in.kv_heads;
    first_head = kv_head * group + chunk * kHeads;
    heads = smaller(kHeads, group - chunk * kHeads);
    const int length = in.lengths[sequence];
    const int visible = in.window > 0 ? smaller(length, in.window) : length;
    count = smaller(kRun, visible - index * kRun);
    row = in.slots[sequence] * in.capacity + (length - visible) + index * kRun;
  }
};

template <typename L>
using Vectors = float4[L::kVectors];

// This thread's part of a row, zero beyond the depth.
template <typename L>
__device__ void load_part(const Operand& from, std::int64_t row, std::int64_t column, int depth,
                          bool here, Vectors<L>& to) {
#pragma unroll
  for (int v = 0; v < L::kVectors; ++v) {
    const int d = L::column(v);
    to[v] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (here && d < depth) to[v] = load_some(from, row, column + d, depth - d);
  }
}

// scores[kHeads, kRun] of the block's heads.
template <typename L>
__device__ void make_scores(const Decode& in, const Run& run, float* scores) {
  Vectors<L> q[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h)
    load_part<L>(in.q, run.sequence, std::int64_t{run.first_head + h} * in.depth, in.depth,
                 h < run.heads, q[h]);
  for (int base = 0; base < run.count; base += kBatch * L::kParts) {
    Vectors<L> k[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int j = base + b * L::kParts + L::part();
      load_part<L>(in.keys, run.row + j, std::int64_t{run.kv_head} * in.depth, in.depth,
                   j < run.count, k[b]);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int j = base + b * L::kParts + L::part();
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        if (h >= run.heads) break;  // for the whole block
        float dot = 0.0f;
#pragma unroll
        for (int v = 0; v < L::kVectors; ++v)
          dot += q[h][v].x * k[b][v].x + q[h][v].y * k[b][v].y + q[h][v].z * k[b][v].z +
                 q[h][v].w * k[b][v].w;
#pragma unroll
        for (int offset = L::kLanes / 2; offset > 0; offset /= 2)
          dot += __shfl_xor_sync(0xffffffffu, dot, offset);
        if (L::column(0) == 0 && j < run.count) scores[h * kRun + j] = in.scale * dot;
      }
    }
  }
}

// One warp: scores become exponentials relative to the largest; that and their sum go to `state`.
__device__ void softmax(int count, float* scores, float* state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float largest = -3.402823466e38f, total = 0.0f;
  for (int j = lane; j < count; j += 32) largest = scores[j] > largest ? scores[j] : largest;
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, largest, offset);
    largest = other > largest ? other : largest;
  }
  for (int j = lane; j < count; j += 32) {
    scores[j] = kernels::exp_f(scores[j] - largest);
    total += scores[j];
  }
  for (int offset = 16; offset > 0; offset /= 2)
    total += __shfl_xor_sync(0xffffffffu, total, offset);
  if (lane == 0) {
    state[0] = largest;
    state[1] = total;
  }
}

// sums[kParts, kHeads, kDepth]: the values of the run by weights, of each part's keys.
template <typename L>
__device__ void weigh_values(const Decode& in, const Run& run, const float* weights, float* sums) {
  Vectors<L> sum[kHeads] = {};
  for (int base = 0; base < run.count; base += kBatch * L::kParts) {
    Vectors<L> value[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int j = base + b * L::kParts + L::part();
      load_part<L>(in.values, run.row + j, std::int64_t{run.kv_head} * in.depth, in.depth,
                   j < run.count, value[b]);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int j = base + b * L::kParts + L::part();
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float w = h < run.heads && j < run.count ? weights[h * kRun + j] : 0.0f;
#pragma unroll
        for (int v = 0; v < L::kVectors; ++v) {
          sum[h][v].x += w * value[b][v].x;
          sum[h][v].y += w * value[b][v].y;
          sum[h][v].z += w * value[b][v].z;
          sum[h][v].w += w * value[b][v].w;
        }
      }
    }
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int v = 0; v < L::kVectors; ++v)
      store_vector(sums + (L::part() * kHeads + h) * L::kDepth + L::column(v), sum[h][v]);
  }
}

template <typename L>
__global__ void __launch_bounds__(32 * kWarps, 1) decode_kernel(Decode in) {
  FATHOM_SHARED(float, scores, kHeads* kRun);
  FATHOM_SHARED(float4, sums, L::kParts * kHeads * L::kDepth / 4);
  const Run run(in, blockIdx.x);
  if (run.count <= 0) return;  // the whole block: another sequence is longer
  float* const partial =
      in.partials +
      ((std::int64_t{run.sequence} * in.heads + run.first_head) * in.runs + run.index) *
          (2 + in.depth);
  const std::int64_t next_head = std::int64_t{in.runs} * (2 + in.depth);
  make_scores<L>(in, run, scores);
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp < run.heads) softmax(run.count, scores + warp * kRun, partial + warp * next_head);
  __syncthreads();
  float* const parts = reinterpret_cast<float*>(sums);
  weigh_values<L>(in, run, scores, parts);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < run.heads * L::kDepth; i += 32 * kWarps) {
    const int h = i / L::kDepth, d = i % L::kDepth;
    float sum = 0.0f;
    for (int p = 0; p < L::kParts; ++p) sum += parts[(p * kHeads + h) * L::kDepth + d];
    if (d < in.depth) partial[h * next_head + 2 + d] = sum;
  }
}

// out [sequences, heads * depth] from the partial results of each head's runs.
void merge_runs(const Decode& in, const Tensor& out) {
  const float* partials = in.partials;
  const std::int32_t* lengths = in.lengths;
  const int heads = in.heads, depth = in.depth, runs = in.runs, window = in.window;
  float* to = out.ptr<float>();
  const std::int64_t stride = out.row_stride();
  kernels::for_each_row(
      out.device(), out.rows() * heads, depth,
      FATHOM_BODY(const kernels::Row& row, std::int64_t r) {
        const std::int64_t sequence = r / heads, head = r % heads;
        const int length = lengths[sequence];
        const int visible = window > 0 && window < length ? window : length;
        const int count = (visible + kRun - 1) / kRun;
        const float* first = partials + r * runs * (2 + depth);
        row.each(depth, [&](std::int64_t d) {
          float largest = first[0], total = 0.0f, sum = 0.0f;
          for (int i = 1; i < count; ++i) {
            const float other = first[i * (2 + depth)];
            largest = other > largest ? other : largest;
          }
          for (int i = 0; i < count; ++i) {
            const float* state = first + i * (2 + depth);
            const float weight = kernels::exp_f(state[0] - largest);
            total += weight * state[1];
            sum += weight * state[2 + d];
          }
          to[sequence * stride + head * depth + d] = sum / total;
        });
      });
}

template <int kDepth>
void attend(Device& device, std::int64_t blocks, const Decode& in) {
  KernelScope scope(device);
  launch(decode_kernel<Lanes<kDepth>>, static_cast<unsigned>(blocks), 32 * kWarps, 0,
         stream_of(device), in);
}

}  // namespace
}  // namespace fathom::gpu::attention

namespace fathom::kernels {

void attention_decode(const AttentionShape& shape, const std::vector<std::int32_t>& slots,
                      const std::vector<std::int32_t>& lengths, const Tensor& q, const Tensor& keys,
                      const Tensor& values, const Tensor& out) {
  using namespace gpu::attention;
  check_decode(shape, slots, lengths, q, keys, values, out);
  if (q.rows() == 0) return;
  Device& device = q.device();
  const std::int64_t width = shape.kv_heads * shape.head_dim, capacity = keys.size(1);
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const std::int64_t visible = shape.window > 0 ? std::min(longest, shape.window) : longest;
  const std::int64_t runs = (visible + kRun - 1) / kRun;
  const std::int64_t chunks = (shape.heads / shape.kv_heads + kHeads - 1) / kHeads;
  const Shape cache_rows{keys.size(0) * capacity, width};
  std::vector<std::int32_t> places = slots;
  places.insert(places.end(), lengths.begin(), lengths.end());
  const Tensor on_device = Tensor::from_host(device, {2, q.rows()}, places);
  const Tensor partials =
      Tensor::empty(device, {q.rows() * shape.heads, runs * (2 + shape.head_dim)});
  const Decode in{{q, shape.head_dim},
                  {keys.view(cache_rows), shape.head_dim},
                  {values.view(cache_rows), shape.head_dim},
                  on_device.ptr<std::int32_t>(),
                  on_device.ptr<std::int32_t>() + q.rows(),
                  partials.ptr<float>(),
                  capacity,
                  static_cast<int>(shape.heads),
                  static_cast<int>(shape.kv_heads),
                  static_cast<int>(shape.head_dim),
                  static_cast<int>(runs),
                  static_cast<int>(chunks),
                  static_cast<int>(std::min<std::int64_t>(shape.window, longest)),
                  shape.scale};
  const std::int64_t blocks = q.rows() * shape.kv_heads * chunks * runs;
  with_tiles(shape.head_dim, [&]<typename T>(T) { attend<T::kDepth>(device, blocks, in); });
  merge_runs(in, out);
}

}  // namespace fathom::kernels
