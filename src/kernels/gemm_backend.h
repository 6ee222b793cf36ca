#pragma once

// What a GEMM library must provide besides sgemm(), gemm_library() and native_bf16() of gemm.h; one
// source per library, chosen in CMake.

#include "core/dtype.h"
#include "kernels/gemm.h"

namespace fathom::kernels {

/// C = op(A) op(B) + beta C with bf16 inputs and f32 sums, beta 0 or 1. Called only where
/// native_bf16().
void gemm_bf16(Trans trans_a, Trans trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
               const bf16* a, std::int64_t lda, const bf16* b, std::int64_t ldb, float beta,
               float* c, std::int64_t ldc);

}  // namespace fathom::kernels
