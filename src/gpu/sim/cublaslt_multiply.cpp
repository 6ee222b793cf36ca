#include "gpu/sim/cublaslt_multiply.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "core/dtype.h"

namespace fathom::gpu::sim {
namespace {

// Rounded to TF32: ten bits of mantissa, to nearest, ties to even, as bf16 with seven.
float round_tf32(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7f800000u) == 0x7f800000u) return x;  // infinities and NaN
  return std::bit_cast<float>((u + 0xfffu + ((u >> 13) & 1u)) & ~0x1fffu);
}

float element(ColumnProduct::Factors factors, const void* memory, std::int64_t at) {
  if (factors == ColumnProduct::Factors::bf16)
    return to_float(static_cast<const bf16*>(memory)[at]);
  const float value = static_cast<const float*>(memory)[at];
  return factors == ColumnProduct::Factors::tf32 ? round_tf32(value) : value;
}

// A matrix [rows, columns] of stride ld, by columns, as f32 packed by columns; transposed on
// request.
std::vector<float> pack(ColumnProduct::Factors factors, const void* from, std::int64_t rows,
                        std::int64_t columns, std::int64_t ld, bool transpose) {
  std::vector<float> out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r)
      out[static_cast<std::size_t>(transpose ? r * columns + c : c * rows + r)] =
          element(factors, from, c * ld + r);
  return out;
}

// Rows of D that are summed together: four columns of them stay in the first cache.
constexpr std::int64_t kTile = 512;
constexpr int kColumns = 4;
using Tile = float[kColumns][kTile];

// As on a device, long sums are made of shorter ones, which keeps more of their bits.
constexpr std::int64_t kDepth = 256;

// sums += `rows` rows of op(A), packed [k][m] and beginning at a, times columns of op(B), packed
// [n][k], of which the columns are at `of`: terms [begin, end) of each sum.
void add_terms(const ColumnProduct& p, const float* a, const float* const (&of)[kColumns],
               std::int64_t rows, std::int64_t begin, std::int64_t end, Tile& sums) {
  for (std::int64_t t = begin; t < end; ++t) {
    const float* from = a + t * p.m;
    const float b0 = of[0][t], b1 = of[1][t], b2 = of[2][t], b3 = of[3][t];
#pragma omp simd
    for (std::int64_t i = 0; i < rows; ++i) {
      sums[0][i] += from[i] * b0;
      sums[1][i] += from[i] * b1;
      sums[2][i] += from[i] * b2;
      sums[3][i] += from[i] * b3;
    }
  }
}

// The whole sums of a tile; `columns` of the columns from b on exist.
void sum_tile(const ColumnProduct& p, const float* a, const float* b, std::int64_t rows,
              std::int64_t columns, Tile& totals) {
  const float* of[kColumns];
  for (std::int64_t j = 0; j < kColumns; ++j) of[j] = b + std::min(j, columns - 1) * p.k;
  std::memset(totals, 0, sizeof totals);
  for (std::int64_t begin = 0; begin < p.k; begin += kDepth) {
    Tile sums = {};
    add_terms(p, a, of, rows, begin, std::min(p.k, begin + kDepth), sums);
    for (int j = 0; j < kColumns; ++j)
      for (std::int64_t i = 0; i < rows; ++i) totals[j][i] += sums[j][i];
  }
}

}  // namespace

void multiply(const ColumnProduct& p) {
  const std::vector<float> a = p.transposed_a ? pack(p.factors, p.a, p.k, p.m, p.lda, true)
                                              : pack(p.factors, p.a, p.m, p.k, p.lda, false);
  const std::vector<float> b = p.transposed_b ? pack(p.factors, p.b, p.n, p.k, p.ldb, true)
                                              : pack(p.factors, p.b, p.k, p.n, p.ldb, false);
  Tile sums;
  for (std::int64_t row = 0; row < p.m; row += kTile) {
    const std::int64_t rows = std::min(kTile, p.m - row);
    for (std::int64_t column = 0; column < p.n; column += kColumns) {
      const std::int64_t columns = std::min<std::int64_t>(kColumns, p.n - column);
      sum_tile(p, a.data() + row, b.data() + column * p.k, rows, columns, sums);
      for (std::int64_t j = 0; j < columns; ++j) {
        float* d = p.d + (column + j) * p.ldd + row;
        for (std::int64_t i = 0; i < rows; ++i)
          d[i] = p.alpha * sums[j][i] + (p.beta == 0.0f ? 0.0f : p.beta * d[i]) +
                 (p.bias == nullptr ? 0.0f : p.bias[row + i]);
      }
    }
  }
}

}  // namespace fathom::gpu::sim
