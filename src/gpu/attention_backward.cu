#include <algorithm>

#include "gpu/attention_mask.cuh"

// With P the probabilities, M the dropout mask and D the row sums of dout * out:
//   dV = (P M)^T dout,   dS = P (M dout V^T - D),   dQ = scale dS K,   dK = dS^T (scale Q).
// Two kernels, without atomics, so that the sums of a gradient are always taken in the same order:
// one makes dQ by tiles of queries (and D, for the other), one makes dK and dV by tiles of keys.
// Each makes P from the forward pass's log-sum-exp, which costs seven products of tiles instead of
// five.

namespace fathom::gpu::attention {
namespace {

struct Backward {
  Call call;
  Operand q, k, v, out, dout, dq, dk, dv;
  const float* lse;
  std::int64_t lse_stride;
  float* delta;  ///< [n, heads]: D
};

// The values of this thread's queries: D, which is stored too, and the log-sum-exp.
template <typename T>
struct QueryRows {
  float lse[T::kRows], delta[T::kRows];

  __device__ QueryRows(const Backward& in, const Item& item, int head, const float* douts) {
    const int depth = in.call.depth;
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) {
      const int query = item.begin + T::first_row() + i;
      const std::int64_t row = std::int64_t{item.first_row} + query;
      const bool here = query < item.length;
      float sum = 0.0f;
#pragma unroll
      for (int v = 0; v < T::kVectors; ++v) {
        const int d = 32 * v + 4 * T::x();
        if (!here || d >= depth) continue;
        const float4 a = load_some(in.out, row, std::int64_t{head} * depth + d, depth - d);
        const float4 b = load_vector(douts + (T::first_row_slot() + 4 * i) * T::kPitch + d);
        sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
      }
      delta[i] = row_sum(sum);
      lse[i] = here ? in.lse[row * in.lse_stride + head] : 0.0f;
      if (here && T::x() == 0) in.delta[row * in.call.heads + head] = delta[i];
    }
  }
};

template <typename T>
__global__ void __launch_bounds__(T::kThreads, 1) query_gradients(Backward in) {
  FATHOM_DYNAMIC_SHARED(float, queries);
  float* const douts = queries + T::kTileFloats;
  float* const keys = douts + T::kTileFloats;
  float* const values = keys + T::kTileFloats;
  float* const weights = values;  // once all scores have been made of the values

  const Call& call = in.call;
  const Item item = call.items[blockIdx.x / static_cast<unsigned>(call.heads)];
  const int head = static_cast<int>(blockIdx.x) % call.heads;
  const int depth = call.depth, count = item.length - item.begin;
  const std::int64_t column = std::int64_t{head} * depth;
  const std::int64_t kv_column = std::int64_t{head} * call.kv_heads / call.heads * depth;
  const std::int64_t first = std::int64_t{item.first_row} + item.begin;
  const HeadDropout dropout(call, item, head);
  load_tile<T, false>(in.q, first, count, column, depth, call.scale, queries);
  load_tile<T, false>(in.dout, first, count, column, depth, 1.0f, douts);
  __syncthreads();
  const QueryRows<T> mine(in, item, head, douts);
  typename T::Sums sums;
  clear<T>(sums);
  for (int key = call.first_key(item.begin, T::kTile); key <= item.begin; key += T::kTile) {
    const std::int64_t row = std::int64_t{item.first_row} + key;
    load_tile<T, true>(in.k, row, item.length - key, kv_column, depth, 1.0f, keys);
    load_tile<T, true>(in.v, row, item.length - key, kv_column, depth, 1.0f, values);
    __syncthreads();
    typename T::Scores p, ds;
    multiply<T>(queries, keys, depth, p);
    multiply<T>(douts, values, depth, ds);
    hide_unseen<T>(call, item.begin, key, p);
    drop<T>(dropout, item.begin, key, ds);
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) {
#pragma unroll
      for (int c = 0; c < T::kColumns; ++c)
        ds[i][c] = kernels::exp_f(p[i][c] - mine.lse[i]) * (ds[i][c] - mine.delta[i]);
    }
    __syncthreads();
    store_weights<T>(ds, weights);
    __syncwarp();
    accumulate<T>(weights, keys, smaller(T::kTile, item.length - key), sums);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < T::kRows; ++i) {
    const int r = T::first_row() + i;
    if (r < count) store_sums<T>(sums, i, call.scale, in.dq, first + r, column, depth);
  }
}

// The tiles of shared memory of key_gradients.
template <typename T>
struct KeyTiles {
  static constexpr int kFloats = 4 * T::kTileFloats + T::kWeightFloats + 2 * T::kTile;

  __device__ explicit KeyTiles(float* memory)
      : keys(memory),
        values(keys + T::kTileFloats),
        queries(values + T::kTileFloats),
        douts(queries + T::kTileFloats),
        weights(douts + T::kTileFloats),
        lse(weights + T::kWeightFloats),
        delta(lse + T::kTile) {}

  float *keys, *values, *queries, *douts, *weights, *lse, *delta;
};

// The queries from position `query` on of one head. Those beyond the sequence have zeros
// everywhere, and so contribute nothing.
template <typename T>
__device__ void load_queries(const Backward& in, const Item& item, int head, int query,
                             const KeyTiles<T>& tiles) {
  const int depth = in.call.depth, count = item.length - query;
  const std::int64_t row = std::int64_t{item.first_row} + query;
  const std::int64_t column = std::int64_t{head} * depth;
  load_tile<T, true>(in.q, row, count, column, depth, in.call.scale, tiles.queries);
  load_tile<T, true>(in.dout, row, count, column, depth, 1.0f, tiles.douts);
  const int i = static_cast<int>(threadIdx.x);
  if (i < T::kTile) {
    tiles.lse[i] = i < count ? in.lse[(row + i) * in.lse_stride + head] : 0.0f;
    tiles.delta[i] = i < count ? in.delta[(row + i) * in.call.heads + head] : 0.0f;
  }
}

template <typename T>
struct KeySums {
  typename T::Sums dk, dv;

  __device__ KeySums() {
    clear<T>(dk);
    clear<T>(dv);
  }

  // Adds what the loaded queries contribute. Rows are keys here.
  __device__ void add(const Call& call, const HeadDropout& dropout, int query, int key, int count,
                      const KeyTiles<T>& tiles) {
    typename T::Scores p, ds;
    multiply<T>(tiles.keys, tiles.queries, call.depth, p);
    multiply<T>(tiles.values, tiles.douts, call.depth, ds);
    hide_unseen_keys<T>(call, query, key, p);
    const auto finish = [&](int i, int c, float keep) {
      const int column = T::column(c);
      p[i][c] = kernels::exp_f(p[i][c] - tiles.lse[column]);
      ds[i][c] = p[i][c] * (keep * ds[i][c] - tiles.delta[column]);
      p[i][c] *= keep;
    };
    each_key<T>(dropout, query, key, finish);
    store_weights<T>(p, tiles.weights);
    __syncwarp();
    accumulate<T>(tiles.weights, tiles.douts, count, dv);
    __syncwarp();
    store_weights<T>(ds, tiles.weights);
    __syncwarp();
    accumulate<T>(tiles.weights, tiles.queries, count, dk);
  }
};

template <typename T>
__global__ void __launch_bounds__(T::kThreads, 1) key_gradients(Backward in) {
  FATHOM_DYNAMIC_SHARED(float, memory);
  const KeyTiles<T> tiles(memory);
  const Call& call = in.call;
  const Item item = call.items[blockIdx.x / static_cast<unsigned>(call.kv_heads)];
  const int kv_head = static_cast<int>(blockIdx.x) % call.kv_heads;
  const int group = call.heads / call.kv_heads, count = item.length - item.begin;
  const std::int64_t first = std::int64_t{item.first_row} + item.begin;
  const std::int64_t column = std::int64_t{kv_head} * call.depth;
  load_tile<T, false>(in.k, first, count, column, call.depth, 1.0f, tiles.keys);
  load_tile<T, false>(in.v, first, count, column, call.depth, 1.0f, tiles.values);
  KeySums<T> sums;
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const HeadDropout dropout(call, item, head);
    for (int query = item.begin; query < item.length; query += T::kTile) {
      if (call.first_key(query, T::kTile) > item.begin) break;
      load_queries<T>(in, item, head, query, tiles);
      __syncthreads();
      sums.add(call, dropout, query, item.begin, smaller(T::kTile, item.length - query), tiles);
      __syncthreads();
    }
  }
#pragma unroll
  for (int i = 0; i < T::kRows; ++i) {
    const int r = T::first_row() + i;
    if (r >= count) continue;
    store_sums<T>(sums.dk, i, 1.0f, in.dk, first + r, column, call.depth);
    store_sums<T>(sums.dv, i, 1.0f, in.dv, first + r, column, call.depth);
  }
}

template <typename T>
constexpr std::int64_t kQueryFloats = 3 * T::kTileFloats + T::kSharedFloats;

}  // namespace

std::int64_t backward_shared_floats(std::int64_t head_dim) {
  std::int64_t floats = 0;
  with_tiles(head_dim, [&]<typename T>(T) {
    floats = std::max<std::int64_t>(kQueryFloats<T>, KeyTiles<T>::kFloats);
  });
  return floats;
}

}  // namespace fathom::gpu::attention

namespace fathom::kernels {

void attention_backward(const AttentionShape& shape, const std::vector<std::int32_t>& starts,
                        const AttentionDropout& dropout, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& out, const Tensor& lse, const Tensor& dout,
                        const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  using namespace gpu::attention;
  check_attention(shape, starts, dropout, q, k, v, out, lse);
  check_attention(shape, starts, dropout, dq, dk, dv, dout, lse);
  Device& device = q.device();
  const Tensor delta = Tensor::empty(device, {q.rows(), shape.heads});
  with_tiles(shape.head_dim, [&]<typename T>(T) {
    const auto operand = [&](const Tensor& tensor) { return Operand(tensor, shape.head_dim); };
    const auto items_of = [&](ItemsOf kind) {
      return tile_items(device, starts, dropout.samples, T::kTile, shape.window, kind);
    };
    const Items queries = items_of(ItemsOf::queries), keys = items_of(ItemsOf::keys);
    Backward in{{shape, dropout, queries},
                operand(q),
                operand(k),
                operand(v),
                operand(out),
                operand(dout),
                operand(dq),
                operand(dk),
                operand(dv),
                lse.ptr<float>(),
                lse.row_stride(),
                delta.ptr<float>()};
    launch_items(device, query_gradients<T>, queries.count, shape.heads, T::kThreads,
                 kQueryFloats<T>, in);
    in.call.items = keys.data();
    launch_items(device, key_gradients<T>, keys.count, shape.kv_heads, T::kThreads,
                 KeyTiles<T>::kFloats, in);
  });
}

}  // namespace fathom::kernels
