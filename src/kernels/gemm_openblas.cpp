#include <cblas.h>

#include "core/error.h"
#include "kernels/gemm_backend.h"

namespace fathom::kernels {
namespace {

CBLAS_TRANSPOSE blas(Trans trans) {
  return trans == Trans::no ? CblasNoTrans : CblasTrans;
}

}  // namespace

void multiply(Device& /*device*/, const MatrixProduct& p) {
  FATHOM_CHECK(p.precision == Precision::f32,
               "OpenBLAS multiplies f32 only, as native_bf16() says");
  const auto narrow = [](std::int64_t x) { return static_cast<blasint>(x); };
  cblas_sgemm(CblasRowMajor, blas(p.trans_a), blas(p.trans_b), narrow(p.m), narrow(p.n),
              narrow(p.k), p.alpha, static_cast<const float*>(p.a), narrow(p.lda),
              static_cast<const float*>(p.b), narrow(p.ldb), p.beta, p.c, narrow(p.ldc));
}

bool adds_bias(std::int64_t /*n*/, std::int64_t /*k*/) {
  return false;
}

const char* gemm_library() {
  return "OpenBLAS";
}

bool native_bf16() {
  return false;
}

}  // namespace fathom::kernels
