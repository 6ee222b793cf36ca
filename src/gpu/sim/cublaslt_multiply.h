#pragma once

#include <cstdint>

namespace fathom::gpu::sim {

/// D = alpha op(A) op(B) + beta D + bias by columns, as cuBLAS counts: op(A) [m, k], op(B) [k, n],
/// D [m, n] and bias [m].
struct ColumnProduct {
  enum class Factors { f32, tf32, bf16 };  ///< what A and B hold, or are rounded to

  std::int64_t m, n, k;
  bool transposed_a, transposed_b;
  Factors factors;
  const void* a;
  std::int64_t lda;
  const void* b;
  std::int64_t ldb;
  float alpha, beta;
  float* d;
  std::int64_t ldd;
  const float* bias = nullptr;  ///< null for none
};

/// Computes it on the calling thread. With beta 0, D is not read.
void multiply(const ColumnProduct& product);

}  // namespace fathom::gpu::sim
