#include "gpu/attention_mask.cuh"

// A block makes the rows of one tile of queries of one head: it goes through the tiles of keys that
// they see and keeps, for each query, the largest score so far, the sum of exponentials relative to
// it, and the values weighted by them.

namespace fathom::gpu::attention {
namespace {

struct Forward {
  Call call;
  Operand q, k, v, out;
  float* lse;
  std::int64_t lse_stride;
};

template <typename T>
struct Softmax {
  float largest[T::kRows], total[T::kRows];
  typename T::Sums sums;

  __device__ Softmax() {
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) {
      largest[i] = -1e30f;  // above hidden scores, so that their exponentials vanish
      total[i] = 0.0f;
    }
    clear<T>(sums);
  }

  // Scores become exponentials relative to the largest so far. `total` is of this thread's columns.
  __device__ void add(typename T::Scores& scores) {
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) {
      float top = largest[i];
#pragma unroll
      for (int c = 0; c < T::kColumns; ++c) top = scores[i][c] > top ? scores[i][c] : top;
      top = row_max(top);
      const float correction = kernels::exp_f(largest[i] - top);
      largest[i] = top;
      total[i] *= correction;
#pragma unroll
      for (int c = 0; c < T::kColumns; ++c) {
        scores[i][c] = kernels::exp_f(scores[i][c] - top);
        total[i] += scores[i][c];
      }
#pragma unroll
      for (int v = 0; v < T::kVectors; ++v) {
        float4& s = sums[i][v];
        s = {correction * s.x, correction * s.y, correction * s.z, correction * s.w};
      }
    }
  }
};

template <typename T>
__device__ void store(const Forward& in, const Item& item, int head, const Softmax<T>& softmax) {
#pragma unroll
  for (int i = 0; i < T::kRows; ++i) {
    const float total = row_sum(softmax.total[i]);
    const int query = item.begin + T::first_row() + i;
    if (query >= item.length) continue;
    const std::int64_t row = std::int64_t{item.first_row} + query;
    store_sums<T>(softmax.sums, i, 1.0f / total, in.out, row, std::int64_t{head} * in.call.depth,
                  in.call.depth);
    if (T::x() == 0) in.lse[row * in.lse_stride + head] = softmax.largest[i] + logf(total);
  }
}

template <typename T>
__global__ void __launch_bounds__(T::kThreads, T::kForwardBlocks) forward_kernel(Forward in) {
  FATHOM_DYNAMIC_SHARED(float, queries);
  float* const keys = queries + T::kTileFloats;
  float* const values = keys + T::kSharedFloats;
  float* const weights = keys;  // once all scores have been made of the keys

  const Call& call = in.call;
  const Item item = call.items[blockIdx.x / static_cast<unsigned>(call.heads)];
  const int head = static_cast<int>(blockIdx.x) % call.heads;
  const std::int64_t kv_column = std::int64_t{head} * call.kv_heads / call.heads * call.depth;
  const HeadDropout dropout(call, item, head);
  load_tile<T, false>(in.q, std::int64_t{item.first_row} + item.begin, item.length - item.begin,
                      std::int64_t{head} * call.depth, call.depth, call.scale, queries);
  Softmax<T> softmax;
  for (int key = call.first_key(item.begin, T::kTile); key <= item.begin; key += T::kTile) {
    const std::int64_t row = std::int64_t{item.first_row} + key;
    load_tile<T, true>(in.k, row, item.length - key, kv_column, call.depth, 1.0f, keys);
    load_tile<T, true>(in.v, row, item.length - key, kv_column, call.depth, 1.0f, values);
    __syncthreads();
    typename T::Scores scores;
    multiply<T>(queries, keys, call.depth, scores);
    hide_unseen<T>(call, item.begin, key, scores);
    softmax.add(scores);
    drop<T>(dropout, item.begin, key, scores);
    __syncthreads();
    store_weights<T>(scores, weights);
    __syncwarp();
    accumulate<T>(weights, values, smaller(T::kTile, item.length - key), softmax.sums);
    __syncthreads();
  }
  store<T>(in, item, head, softmax);
}

template <typename T>
constexpr std::int64_t kForwardFloats = 2 * T::kTileFloats + T::kSharedFloats;

}  // namespace

std::int64_t forward_shared_floats(std::int64_t head_dim) {
  std::int64_t floats = 0;
  with_tiles(head_dim, [&]<typename T>(T) { floats = kForwardFloats<T>; });
  return floats;
}

}  // namespace fathom::gpu::attention

namespace fathom::kernels {

void attention_forward(const AttentionShape& shape, const std::vector<std::int32_t>& starts,
                       const AttentionDropout& dropout, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor& out, const Tensor& lse) {
  using namespace gpu::attention;
  check_attention(shape, starts, dropout, q, k, v, out, lse);
  with_tiles(shape.head_dim, [&]<typename T>(T) {
    const Items items =
        tile_items(q.device(), starts, dropout.samples, T::kTile, shape.window, ItemsOf::queries);
    const Forward in{{shape, dropout, items}, {q, shape.head_dim},   {k, shape.head_dim},
                     {v, shape.head_dim},     {out, shape.head_dim}, lse.ptr<float>(),
                     lse.row_stride()};
    launch_items(q.device(), forward_kernel<T>, items.count, shape.heads, T::kThreads,
                 kForwardFloats<T>, in);
  });
}

}  // namespace fathom::kernels
