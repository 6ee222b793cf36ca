#include <omp.h>

#include "kernels/attention_checks.h"
#include "kernels/attention_common.h"
#include "kernels/math.h"

// With P the probabilities, M the dropout mask and D the row sums of dout * out:
//   dV = (P M)^T dout,   dS = scale P (M dout V^T - D),   dQ = dS K,   dK = dS^T Q.
// One pass per (sequence, key head) makes all of these from each tile. Where there are too few of
// those for the threads, two passes with more parallel parts make dQ, then dK and dV, computing
// each tile twice. Sums are taken in the same order either way, so the bits do not depend on it.

namespace fathom::kernels {
namespace {

using namespace tiles;

struct Backward {
  const AttentionShape& shape;
  const std::vector<std::int32_t>& starts;
  const AttentionDropout& dropout;
  Rows q, k, v, out, lse, dout, dq, dk, dv;
};

struct BackwardScratch {
  BackwardScratch(float* memory, std::int64_t depth) {
    Scratch scratch(memory);
    for (float** tile : {&q, &q_transposed, &dout, &dout_transposed, &k, &v, &dq, &product})
      *tile = scratch.take(kTile * round_up(depth, kLanes));
    for (float** square : {&p, &ds, &mask}) *square = scratch.take(kTile * kTile);
    for (float** column : {&lse, &delta}) *column = scratch.take(kTile);
  }
  static std::int64_t floats(std::int64_t depth) {
    return 8 * kTile * round_up(depth, kLanes) + 3 * kTile * kTile + 2 * kTile;
  }
  float *q, *q_transposed, *dout, *dout_transposed, *k, *v, *dq, *product, *p, *ds, *mask, *lse,
      *delta;
};

void load_queries(const Backward& in, const Block& queries, std::int64_t head,
                  const BackwardScratch& s) {
  const std::int64_t depth = in.shape.head_dim, column = head * depth;
  pack_rows(queries.count, depth, in.q.at(queries.row(), column), in.q.stride, s.q);
  pack_rows(queries.count, depth, in.dout.at(queries.row(), column), in.dout.stride, s.dout);
  transpose(queries.count, depth, in.shape.scale, s.q, s.q_transposed);
  transpose(queries.count, depth, 1.0f, s.dout, s.dout_transposed);
  for (std::int64_t i = 0; i < queries.count; ++i) {
    const float* dout = in.dout.at(queries.row() + i, column);
    const float* out = in.out.at(queries.row() + i, column);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t d = 0; d < depth; ++d) sum += dout[d] * out[d];
    s.delta[i] = sum;
    s.lse[i] = *in.lse.at(queries.row() + i, head);
  }
}

void load_keys(const Backward& in, const Block& keys, std::int64_t kv_column,
               const BackwardScratch& s) {
  const std::int64_t depth = in.shape.head_dim;
  pack_rows(keys.count, depth, in.k.at(keys.row(), kv_column), in.k.stride, s.k);
  pack_rows(keys.count, depth, in.v.at(keys.row(), kv_column), in.v.stride, s.v);
}

// One panel: p from scores to dropped-out probabilities, ds from dout V^T to the scores' gradient.
template <bool kDropout>
void score_gradients(float scale, Range keys, std::int64_t query, const BackwardScratch& s) {
  const float* lse = s.lse + query;
  const float* delta = s.delta + query;
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    float* p = s.p + j * kTile + query;
    float* ds = s.ds + j * kTile + query;
    const float* mask = s.mask + j * kTile + query;
#pragma omp simd
    for (int i = 0; i < kPanel; ++i) {
      const float keep = kDropout ? mask[i] : 1.0f;
      const float probability = exp_f(p[i] - lse[i]);
      ds[i] = scale * probability * (keep * ds[i] - delta[i]);
      p[i] = keep * probability;
    }
  }
}

// p and ds of the loaded queries and keys.
void make_tile(const Backward& in, const Block& queries, const Block& keys, const Band& band,
               const HeadDropout& dropout, const BackwardScratch& s) {
  const std::int64_t depth = in.shape.head_dim, ld = round_up(depth, kLanes);
  band_scores(band, depth, s.k, ld, s.q_transposed, s.p);
  band_scores(band, depth, s.v, ld, s.dout_transposed, s.ds);
  for (std::int64_t query = 0; query < queries.count; query += kPanel) {
    const Range range = panel_keys(band, query);
    if (!band.full()) hide_unseen(band, range, query, s.p);
    if (dropout.active()) {
      dropout.mask(queries, keys, range, query, s.mask);
      score_gradients<true>(in.shape.scale, range, query, s);
    } else {
      score_gradients<false>(in.shape.scale, range, query, s);
    }
  }
}

void add_query_gradient(const Band& band, std::int64_t ld, const BackwardScratch& s) {
  multiply<true, true>(
      round_up(band.queries, kRows), ld, s.ds, kTile, s.k, ld, s.dq, ld,
      [&](std::int64_t begin, std::int64_t end) { return band.keys_of(begin, end); });
}

void store_query_gradient(const Backward& in, const Block& queries, std::int64_t head,
                          const BackwardScratch& s) {
  const std::int64_t depth = in.shape.head_dim, ld = round_up(depth, kLanes);
  for (std::int64_t i = 0; i < queries.count; ++i)
    std::copy_n(s.dq + i * ld, depth, in.dq.at(queries.row() + i, head * depth));
}

// to (+)= weights[keys, queries] rows[queries, depth]; `first` overwrites.
void add_key_gradient(const Band& band, std::int64_t depth, const float* weights, const float* rows,
                      float* product, bool first, float* to, std::int64_t stride) {
  const std::int64_t ld = round_up(depth, kLanes);
  multiply<false, false>(
      round_up(band.keys, kRows), ld, weights, kTile, rows, ld, product, ld,
      [&](std::int64_t begin, std::int64_t end) { return band.queries_of(begin, end); });
  for (std::int64_t j = 0; j < band.keys; ++j) {
    const float* from = product + j * ld;
    float* row = to + j * stride;
    if (first) {
      std::copy_n(from, depth, row);
      continue;
    }
#pragma omp simd
    for (std::int64_t d = 0; d < depth; ++d) row[d] += from[d];
  }
}

// dK and dV of the keys gain what the made tile contributes.
void add_key_gradients(const Backward& in, const Block& keys, const Band& band,
                       std::int64_t kv_column, bool first, const BackwardScratch& s) {
  const std::int64_t depth = in.shape.head_dim;
  add_key_gradient(band, depth, s.p, s.dout, s.product, first, in.dv.at(keys.row(), kv_column),
                   in.dv.stride);
  add_key_gradient(band, depth, s.ds, s.q, s.product, first, in.dk.at(keys.row(), kv_column),
                   in.dk.stride);
}

// dQ of one block of queries of one head and, in the single pass, the share of dK and dV.
void query_block(const Backward& in, const Block& queries, std::int64_t head, bool key_gradients,
                 const BackwardScratch& s) {
  const std::int64_t ld = round_up(in.shape.head_dim, kLanes);
  const std::int64_t group = in.shape.heads / in.shape.kv_heads;
  const std::int64_t kv_column = head / group * in.shape.head_dim;
  const HeadDropout dropout(in.dropout, queries.sequence, head);
  load_queries(in, queries, head, s);
  std::fill(s.dq, s.dq + kTile * ld, 0.0f);
  for (std::int64_t key = first_key(in.shape, queries); key <= queries.begin; key += kTile) {
    const Block keys = block_at(queries, key, in.starts);
    const Band band = band_of(in.shape, queries, keys);
    load_keys(in, keys, kv_column, s);
    make_tile(in, queries, keys, band, dropout, s);
    add_query_gradient(band, ld, s);
    // The keys of a block are first seen by the queries of the same block.
    const bool first = head % group == 0 && key == queries.begin;
    if (key_gradients) add_key_gradients(in, keys, band, kv_column, first, s);
  }
  store_query_gradient(in, queries, head, s);
}

// dK and dV of one block of keys, from all heads and queries that see them.
void key_block(const Backward& in, const Block& keys, std::int64_t kv_head,
               const BackwardScratch& s) {
  const std::int64_t group = in.shape.heads / in.shape.kv_heads;
  const std::int64_t kv_column = kv_head * in.shape.head_dim;
  const std::int64_t length =
      in.starts[static_cast<std::size_t>(keys.sequence) + 1] - keys.first_row;
  load_keys(in, keys, kv_column, s);
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const HeadDropout dropout(in.dropout, keys.sequence, head);
    for (std::int64_t begin = keys.begin; begin < length; begin += kTile) {
      const Block queries = block_at(keys, begin, in.starts);
      if (first_key(in.shape, queries) > keys.begin) break;
      const Band band = band_of(in.shape, queries, keys);
      load_queries(in, queries, head, s);
      make_tile(in, queries, keys, band, dropout, s);
      add_key_gradients(in, keys, band, kv_column, head % group == 0 && begin == keys.begin, s);
    }
  }
}

// All gradients of one key head of one sequence.
void sequence_head(const Backward& in, std::int64_t sequence, std::int64_t kv_head,
                   const BackwardScratch& s) {
  const std::int64_t group = in.shape.heads / in.shape.kv_heads;
  const auto at = static_cast<std::size_t>(sequence);
  const std::int64_t length = in.starts[at + 1] - in.starts[at];
  const Block any{static_cast<std::int32_t>(sequence), in.starts[at], 0, 0};
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    for (std::int64_t begin = 0; begin < length; begin += kTile)
      query_block(in, block_at(any, begin, in.starts), head, true, s);
}

// Runs work(item, scratch) for all items on all threads, in any order.
template <typename Work>
void parallel_items(Device& device, std::int64_t items, std::int64_t depth, Work work) {
  if (items == 0) return;
  const int threads = static_cast<int>(std::min<std::int64_t>(items, omp_get_max_threads()));
  const std::int64_t each = BackwardScratch::floats(depth);
  const Tensor memory = Tensor::empty(device, {threads, each});
  float* base = memory.ptr<float>();
  KernelScope scope(device);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::int64_t i = 0; i < items; ++i)
    work(i, BackwardScratch(base + omp_get_thread_num() * each, depth));
}

// Whether the threads share (sequence, key head) pairs well enough: a second making of the tiles
// costs two products in five.
bool single_pass(std::int64_t pairs) {
  const std::int64_t threads = omp_get_max_threads();
  return 5 * round_up(pairs, threads) <= 7 * pairs;
}

}  // namespace

void attention_backward(const AttentionShape& shape, const std::vector<std::int32_t>& starts,
                        const AttentionDropout& dropout, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& out, const Tensor& lse, const Tensor& dout,
                        const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  check_attention(shape, starts, dropout, q, k, v, out, lse);
  check_attention(shape, starts, dropout, dq, dk, dv, dout, lse);
  const Backward in{shape,     starts,    dropout,    Rows(q),  Rows(k),  Rows(v),
                    Rows(out), Rows(lse), Rows(dout), Rows(dq), Rows(dk), Rows(dv)};
  const auto sequences = static_cast<std::int64_t>(starts.size()) - 1;
  const std::int64_t heads = shape.heads, kv_heads = shape.kv_heads, depth = shape.head_dim;
  if (single_pass(sequences * kv_heads)) {
    parallel_items(q.device(), sequences * kv_heads, depth,
                   [&](std::int64_t i, const BackwardScratch& s) {
                     sequence_head(in, i / kv_heads, i % kv_heads, s);
                   });
    return;
  }
  const auto queries = head_blocks(starts, heads, true),
             keys = head_blocks(starts, kv_heads, false);
  parallel_items(q.device(), std::ssize(queries), depth,
                 [&](std::int64_t i, const BackwardScratch& s) {
                   const auto& [block, head] = queries[static_cast<std::size_t>(i)];
                   query_block(in, block, head, false, s);
                 });
  parallel_items(q.device(), std::ssize(keys), depth,
                 [&](std::int64_t i, const BackwardScratch& s) {
                   const auto& [block, head] = keys[static_cast<std::size_t>(i)];
                   key_block(in, block, head, s);
                 });
}

}  // namespace fathom::kernels
