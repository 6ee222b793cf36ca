#pragma once

// What a GEMM library must provide besides gemm_library() and native_bf16() of gemm.h, on raw
// memory within the caller's KernelScope; one source per library, chosen in CMake.

#include "kernels/backend.h"
#include "kernels/gemm.h"

namespace fathom::kernels {

/// C = alpha op(A) op(B) + beta C + bias with op(A) [m, k], op(B) [k, n] and C [m, n], all
/// row-major and at least 1; `lda` and its kin are the strides of rows as they lie in memory.
struct MatrixProduct {
  Trans trans_a, trans_b;
  std::int64_t m, n, k;
  Precision precision;  ///< bf16: the factors are bf16 in memory, else f32. C and all sums are f32.
  const void* a;
  std::int64_t lda;
  const void* b;
  std::int64_t ldb;
  float alpha, beta;  ///< on the CPU, alpha is 1 for bf16; with beta 0, C is not read
  float* c;
  std::int64_t ldc;
  const float* bias = nullptr;  ///< [n], or null
};

/// Computes or enqueues a product, of precision bf16 only where native_bf16().
void multiply(Device& device, const MatrixProduct& product);

/// Whether multiply() takes a bias along, for products with rows of n and sums of k.
bool adds_bias(std::int64_t n, std::int64_t k);

}  // namespace fathom::kernels
