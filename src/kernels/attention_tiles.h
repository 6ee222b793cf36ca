#pragma once

// Products of small tiles for attention on the CPU, on one thread. A library GEMM spends as long on
// packing and dispatch as on a tile; here operands are packed once per tile and the causal band is
// skipped at the grain of the register block.
//
// Scores are kept transposed, [keys, queries]: softmax statistics are then element-wise vectors,
// and of the seven products of attention only the queries need a transposed copy.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/vector.h"

namespace fathom::kernels::tiles {

// Rows of a register block, chosen so that its sums and operands fill the registers.
#if defined(__AVX512F__)
constexpr int kRows = 8;
#else
constexpr int kRows = 4;
#endif
constexpr int kVectors = 2;                ///< vectors side by side in a register block
constexpr int kPanel = kVectors * kLanes;  ///< columns of a register block
constexpr std::int64_t kTile = 64;         ///< queries, and keys, of a tile

constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

struct Range {
  std::int64_t begin = 0, end = 0;
};

/// Which keys of a tile its queries see: query i and key j meet if i + offset - window < j <=
/// i + offset, where offset is the distance of the tiles in the sequence.
struct Band {
  std::int64_t offset = 0, window = 0;
  std::int64_t queries = 0, keys = 0;

  /// Keys that some query of [begin, end) sees.
  Range keys_of(std::int64_t begin, std::int64_t end) const {
    const std::int64_t low = std::max<std::int64_t>(0, begin + offset - window + 1);
    return {low, std::max(low, std::min(keys, end + offset))};
  }
  /// Queries that see some key of [begin, end).
  Range queries_of(std::int64_t begin, std::int64_t end) const {
    const std::int64_t low = std::max<std::int64_t>(0, begin - offset);
    return {low, std::max(low, std::min(queries, end - 1 - offset + window))};
  }
  bool sees(std::int64_t query, std::int64_t key) const {
    return key <= query + offset && key > query + offset - window;
  }
  /// Whether every query sees every key of the tile, padding of the last register block included.
  bool full() const { return offset + 1 >= round_up(keys, kRows) && queries + offset <= window; }
};

/// C[kRows, kV * kLanes] (+)= the sum over [k.begin, k.end) of A(:, k) B(k, :), where A(i, k) is
/// a[i * lda + k], or a[k * lda + i] if transposed.
template <int kV, bool kTransposed, bool kAdd>
inline void register_block(Range k, const float* a, std::int64_t lda, const float* b,
                           std::int64_t ldb, float* c, std::int64_t ldc) {
  Vec sum[kRows][kV] = {};
  for (std::int64_t t = k.begin; t < k.end; ++t) {
    Vec row[kV];
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) row[v] = load(b + t * ldb + v * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const float x = kTransposed ? a[t * lda + i] : a[i * lda + t];
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) sum[i][v] += x * row[v];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      float* to = c + i * ldc + v * kLanes;
      store(to, kAdd ? load(to) + sum[i][v] : sum[i][v]);
    }
  }
}

/// C[m, n] (+)= op(A) B, where row chunk [i, i + kRows) sums over k_of(i, i + kRows) only. m is a
/// multiple of kRows and n of kLanes.
template <bool kTransposed, bool kAdd, typename KRange>
inline void multiply(std::int64_t m, std::int64_t n, const float* a, std::int64_t lda,
                     const float* b, std::int64_t ldb, float* c, std::int64_t ldc, KRange k_of) {
  for (std::int64_t j = 0; j < n; j += kPanel) {
    for (std::int64_t i = 0; i < m; i += kRows) {
      const float* from = kTransposed ? a + i : a + i * lda;
      const Range k = k_of(i, i + kRows);
      if (n - j >= kPanel)
        register_block<kVectors, kTransposed, kAdd>(k, from, lda, b + j, ldb, c + i * ldc + j, ldc);
      else
        register_block<1, kTransposed, kAdd>(k, from, lda, b + j, ldb, c + i * ldc + j, ldc);
    }
  }
}

/// The keys that a panel of queries needs, widened to whole register blocks.
inline Range panel_keys(const Band& band, std::int64_t query) {
  const Range keys = band.keys_of(query, query + kPanel);
  if (keys.begin == keys.end) return {};
  return {keys.begin / kRows * kRows, round_up(keys.end, kRows)};
}

/// scores[keys, queries] = rows of `a` [keys, depth] times `bt` [depth, queries], within the band.
inline void band_scores(const Band& band, std::int64_t depth, const float* a, std::int64_t lda,
                        const float* bt, float* scores) {
  const std::int64_t width = round_up(band.queries, kLanes);
  for (std::int64_t q = 0; q < width; q += kPanel) {
    const Range keys = panel_keys(band, q);
    for (std::int64_t j = keys.begin; j < keys.end; j += kRows) {
      float* to = scores + j * kTile + q;
      if (width - q >= kPanel)
        register_block<kVectors, false, false>({0, depth}, a + j * lda, lda, bt + q, kTile, to,
                                               kTile);
      else
        register_block<1, false, false>({0, depth}, a + j * lda, lda, bt + q, kTile, to, kTile);
    }
  }
}

/// to[count rounded up to kLanes, depth rounded up to kLanes] = rows of `from`, zero beyond them.
inline void pack_rows(std::int64_t count, std::int64_t depth, const float* from,
                      std::int64_t stride, float* to) {
  const std::int64_t ld = round_up(depth, kLanes);
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * ld, from + i * stride, static_cast<std::size_t>(depth) * sizeof(float));
    std::fill(to + i * ld + depth, to + (i + 1) * ld, 0.0f);
  }
  std::fill(to + count * ld, to + round_up(count, kLanes) * ld, 0.0f);
}

/// to[depth, kTile] = scale times the transpose of packed rows [count, depth]; the columns up to
/// the next multiple of kLanes are those of the packed rows' padding.
void transpose(std::int64_t count, std::int64_t depth, float scale, const float* rows, float* to);

}  // namespace fathom::kernels::tiles
