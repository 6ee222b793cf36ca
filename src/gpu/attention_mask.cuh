#pragma once

#include "gpu/attention_items.h"
#include "gpu/attention_tiles.cuh"

// Which pairs of queries and keys count: those that see each other, and of these the ones that
// dropout leaves.

namespace fathom::gpu::attention {

/// What the kernels of both passes are told, beside their operands.
struct Call {
  const Item* items;
  int heads, kv_heads, depth;
  int window;  ///< as large as an int can be where there is none
  float scale;
  // Of dropout. A probability of 0 turns it off.
  float probability, keep_scale;
  std::uint32_t key0, key1, site;
  std::int64_t first_head;

  Call(const kernels::AttentionShape& shape, const kernels::AttentionDropout& dropout,
       const Items& work)
      : items(work.data()),
        heads(static_cast<int>(shape.heads)),
        kv_heads(static_cast<int>(shape.kv_heads)),
        depth(static_cast<int>(shape.head_dim)),
        window(shape.window > 0 && shape.window < kUnlimited ? static_cast<int>(shape.window)
                                                             : kUnlimited),
        scale(shape.scale),
        probability(dropout.probability),
        keep_scale(1.0f / (1.0f - dropout.probability)),
        key0(dropout.key0),
        key1(dropout.key1),
        site(dropout.site),
        first_head(dropout.first_head) {}

  __device__ bool sees(int query, int key) const { return key <= query && query - key < window; }
  /// Whether all queries of a tile see all keys of another.
  __device__ bool all_see(int query, int key, int tile) const {
    return key + tile - 1 <= query && query + tile - 1 - key < window;
  }
  /// First position, a multiple of `tile`, of the keys that the queries from `query` on see.
  __device__ int first_key(int query, int tile) const {
    const int first = query - window + 1;  // no overflow: query < kUnlimited
    return first > 0 ? first / tile * tile : 0;
  }
  __device__ float keep(std::uint32_t word) const {
    return uniform01(word) < probability ? 0.0f : keep_scale;
  }

  static constexpr int kUnlimited = 0x7fffffff;
};

// Stands for the score of a pair that does not count: its exponential is zero.
constexpr float kHidden = -3e38f;

/// Hides the scores of pairs that do not see each other; rows are queries.
template <typename T>
__device__ void hide_unseen(const Call& call, int query, int key, typename T::Scores& scores) {
  if (call.all_see(query, key, T::kTile)) return;
#pragma unroll
  for (int i = 0; i < T::kRows; ++i) {
#pragma unroll
    for (int c = 0; c < T::kColumns; ++c)
      if (!call.sees(query + T::first_row() + i, key + T::column(c))) scores[i][c] = kHidden;
  }
}

/// The same where rows are keys.
template <typename T>
__device__ void hide_unseen_keys(const Call& call, int query, int key, typename T::Scores& scores) {
  if (call.all_see(query, key, T::kTile)) return;
#pragma unroll
  for (int i = 0; i < T::kRows; ++i) {
#pragma unroll
    for (int c = 0; c < T::kColumns; ++c)
      if (!call.sees(query + T::column(c), key + T::first_row() + i)) scores[i][c] = kHidden;
  }
}

/// The dropout of one head of one sequence.
struct HeadDropout {
  __device__ HeadDropout(const Call& of, const Item& item, int head)
      : call(of),
        sample(item.sample),
        place(kernels::dropout_place(of.site, of.first_head + head)) {}

  __device__ Philox words(int query, int key) const {
    return philox(call.key0, call.key1, static_cast<std::uint32_t>(key) / 4,
                  static_cast<std::uint32_t>(query), sample, place);
  }

  const Call& call;
  std::uint32_t sample, place;
};

/// Multiplies the scores by 0 or 1 / (1 - probability); rows are queries.
template <typename T>
__device__ void drop(const HeadDropout& dropout, int query, int key, typename T::Scores& scores) {
  if (dropout.call.probability == 0.0f) return;
#pragma unroll
  for (int i = 0; i < T::kRows; ++i) {
#pragma unroll
    for (int g = 0; g < T::kGroups; ++g) {
      const Philox words = dropout.words(query + T::first_row() + i, key + T::column(4 * g));
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[i][4 * g + e] *= dropout.call.keep(words.v[e]);
    }
  }
}

/// f(i, c, factor) for this thread's scores, where rows are keys; the factor is 1 without dropout.
/// The rows of a thread are two or all four of the keys that share a counter.
template <typename T, typename F>
__device__ void each_key(const HeadDropout& dropout, int query, int key, F f) {
  const bool second_half = T::first_row() % 4 != 0;
#pragma unroll
  for (int c = 0; c < T::kColumns; ++c) {
    float keep[T::kRows];
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) keep[i] = 1.0f;
    if (dropout.call.probability > 0.0f) {
      const Philox words = dropout.words(query + T::column(c), key + T::first_row());
#pragma unroll
      for (int i = 0; i < T::kRows; ++i)
        keep[i] = dropout.call.keep(second_half ? words.v[(i + 2) % 4] : words.v[i]);
    }
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) f(i, c, keep[i]);
  }
}

}  // namespace fathom::gpu::attention
