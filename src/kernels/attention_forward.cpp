#include <cmath>
#include <omp.h>

#include "kernels/attention_checks.h"
#include "kernels/attention_common.h"
#include "kernels/math.h"

namespace fathom::kernels {
namespace {

using namespace tiles;

struct Forward {
  const AttentionShape& shape;
  const std::vector<std::int32_t>& starts;
  const AttentionDropout& dropout;
  Rows q, k, v, out, lse;
};

// Tiles of one thread. The statistics are of the queries of the tile: the largest score so far, the
// sum of exponentials relative to it, and the correction of earlier sums.
struct ForwardScratch {
  ForwardScratch(float* memory, std::int64_t depth) {
    Scratch scratch(memory);
    const std::int64_t tile = kTile * round_up(depth, kLanes);
    rows = scratch.take(tile);
    queries = scratch.take(tile);
    sums = scratch.take(tile);
    scores = scratch.take(kTile * kTile);
    mask = scratch.take(kTile * kTile);
    largest = scratch.take(kTile);
    total = scratch.take(kTile);
    correction = scratch.take(kTile);
  }
  static std::int64_t floats(std::int64_t depth) {
    return 3 * kTile * round_up(depth, kLanes) + 2 * kTile * kTile + 3 * kTile;
  }
  float *rows, *queries, *sums, *scores, *mask, *largest, *total, *correction;
};

// One panel of one tile of the online softmax: scores become exponentials relative to the largest
// score so far.
void exponentials(Range keys, std::int64_t query, const ForwardScratch& s) {
  alignas(64) float largest[kPanel], total[kPanel];
  float* running = s.largest + query;
  for (int i = 0; i < kPanel; ++i) largest[i] = running[i];
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    const float* row = s.scores + j * kTile + query;
#pragma omp simd
    for (int i = 0; i < kPanel; ++i) largest[i] = row[i] > largest[i] ? row[i] : largest[i];
  }
#pragma omp simd
  for (int i = 0; i < kPanel; ++i) {
    s.correction[query + i] = exp_f(running[i] - largest[i]);
    running[i] = largest[i];
    total[i] = s.total[query + i] * s.correction[query + i];
  }
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    float* row = s.scores + j * kTile + query;
#pragma omp simd
    for (int i = 0; i < kPanel; ++i) {
      row[i] = exp_f(row[i] - largest[i]);
      total[i] += row[i];
    }
  }
  for (int i = 0; i < kPanel; ++i) s.total[query + i] = total[i];
}

void apply_mask(Range keys, std::int64_t query, const ForwardScratch& s) {
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    float* row = s.scores + j * kTile + query;
    const float* keep = s.mask + j * kTile + query;
#pragma omp simd
    for (int i = 0; i < kPanel; ++i) row[i] *= keep[i];
  }
}

// Adds the keys of one block to the statistics and sums of one block of queries.
void add_keys(const Forward& in, const Block& queries, const Block& keys, std::int64_t kv_column,
              const HeadDropout& dropout, const ForwardScratch& s) {
  const std::int64_t depth = in.shape.head_dim, ld = round_up(depth, kLanes);
  const Band band = band_of(in.shape, queries, keys);
  pack_rows(keys.count, depth, in.k.at(keys.row(), kv_column), in.k.stride, s.rows);
  band_scores(band, depth, s.rows, ld, s.queries, s.scores);
  for (std::int64_t query = 0; query < queries.count; query += kPanel) {
    const Range range = panel_keys(band, query);
    if (!band.full()) hide_unseen(band, range, query, s.scores);
    exponentials(range, query, s);
    if (dropout.active()) {
      dropout.mask(queries, keys, range, query, s.mask);
      apply_mask(range, query, s);
    }
  }
  for (std::int64_t i = 0; i < queries.count; ++i) {
    const float factor = s.correction[i];
    float* row = s.sums + i * ld;
#pragma omp simd
    for (std::int64_t d = 0; d < ld; ++d) row[d] *= factor;
  }
  pack_rows(keys.count, depth, in.v.at(keys.row(), kv_column), in.v.stride, s.rows);
  multiply<true, true>(
      round_up(queries.count, kRows), ld, s.scores, kTile, s.rows, ld, s.sums, ld,
      [&](std::int64_t begin, std::int64_t end) { return band.keys_of(begin, end); });
}

void attend(const Forward& in, const Block& queries, std::int64_t head, const ForwardScratch& s) {
  const std::int64_t depth = in.shape.head_dim, ld = round_up(depth, kLanes);
  const std::int64_t column = head * depth;
  const std::int64_t kv_column = head * in.shape.kv_heads / in.shape.heads * depth;
  const HeadDropout dropout(in.dropout, queries.sequence, head);
  pack_rows(queries.count, depth, in.q.at(queries.row(), column), in.q.stride, s.rows);
  transpose(queries.count, depth, in.shape.scale, s.rows, s.queries);
  std::fill(s.largest, s.largest + kTile, -1e30f);
  std::fill(s.total, s.total + kTile, 0.0f);
  std::fill(s.sums, s.sums + kTile * ld, 0.0f);
  for (std::int64_t key = first_key(in.shape, queries); key <= queries.begin; key += kTile)
    add_keys(in, queries, block_at(queries, key, in.starts), kv_column, dropout, s);
  for (std::int64_t i = 0; i < queries.count; ++i) {
    const float inverse = 1.0f / s.total[i];
    const float* sum = s.sums + i * ld;
    float* to = in.out.at(queries.row() + i, column);
#pragma omp simd
    for (std::int64_t d = 0; d < depth; ++d) to[d] = sum[d] * inverse;
    *in.lse.at(queries.row() + i, head) = s.largest[i] + std::log(s.total[i]);
  }
}

}  // namespace

void require_attention(Device& /*device*/, std::int64_t /*head_dim*/, bool /*backward*/) {}

void attention_forward(const AttentionShape& shape, const std::vector<std::int32_t>& starts,
                       const AttentionDropout& dropout, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor& out, const Tensor& lse) {
  check_attention(shape, starts, dropout, q, k, v, out, lse);
  const Forward in{shape, starts, dropout, Rows(q), Rows(k), Rows(v), Rows(out), Rows(lse)};
  const std::vector<HeadBlock> blocks = head_blocks(starts, shape.heads, true);
  const auto items = static_cast<std::int64_t>(blocks.size());
  const int threads = static_cast<int>(std::min<std::int64_t>(items, omp_get_max_threads()));
  if (items == 0) return;
  const std::int64_t each = ForwardScratch::floats(shape.head_dim);
  const Tensor memory = Tensor::empty(q.device(), {threads, each});
  float* base = memory.ptr<float>();
  KernelScope scope(q.device());
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::int64_t i = 0; i < items; ++i) {
    const auto& [block, head] = blocks[static_cast<std::size_t>(i)];
    attend(in, block, head, ForwardScratch(base + omp_get_thread_num() * each, shape.head_dim));
  }
}

}  // namespace fathom::kernels
