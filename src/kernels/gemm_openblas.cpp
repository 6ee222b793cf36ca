#include <cblas.h>

#include "core/error.h"
#include "kernels/gemm_backend.h"

namespace fathom::kernels {
namespace {

CBLAS_TRANSPOSE blas(Trans trans) {
  return trans == Trans::no ? CblasNoTrans : CblasTrans;
}

}  // namespace

void sgemm(Trans trans_a, Trans trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
           float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
           float beta, float* c, std::int64_t ldc) {
  const auto narrow = [](std::int64_t x) { return static_cast<blasint>(x); };
  cblas_sgemm(CblasRowMajor, blas(trans_a), blas(trans_b), narrow(m), narrow(n), narrow(k), alpha,
              a, narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
}

void gemm_bf16(Trans, Trans, std::int64_t, std::int64_t, std::int64_t, const bf16*, std::int64_t,
               const bf16*, std::int64_t, float, float*, std::int64_t) {
  fail(ErrorKind::internal, "OpenBLAS multiplies no bf16; native_bf16() says so");
}

const char* gemm_library() {
  return "OpenBLAS";
}

bool native_bf16() {
  return false;
}

}  // namespace fathom::kernels
