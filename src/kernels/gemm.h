#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace fathom::kernels {

enum class Trans : bool { no, yes };

/// C = alpha op(A) op(B) + beta C for matrices (all leading dims of a tensor count as rows), with
/// op(A) [m, k], op(B) [k, n], C [m, n]. A and C are f32. B may be bf16: then A is rounded to bf16
/// as well and products are summed in f32 where the CPU has bf16 dot products; elsewhere B is
/// widened and the product is f32 throughout, as it is for the few rows of gemv.h. Row strides are
/// honoured. Uses all threads of the caller.
void gemm(const Tensor& a, Trans trans_a, const Tensor& b, Trans trans_b, const Tensor& c,
          float alpha = 1.0f, float beta = 0.0f);

/// The same on raw row-major f32 memory, within the caller's KernelScope; runs on one thread when
/// called inside a parallel region.
void sgemm(Trans trans_a, Trans trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
           float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
           float beta, float* c, std::int64_t ldc);

/// Name and version of the library behind gemm, and whether it multiplies bf16 natively here.
const char* gemm_library();
bool native_bf16();

}  // namespace fathom::kernels
