#include "kernels/gemm.h"

#include "kernels/gemm_backend.h"
#include "kernels/gemv.h"
#include "kernels/rows.h"

namespace fathom::kernels {
namespace {

struct Extent {
  std::int64_t m, n, k;
};

Extent check(const Tensor& a, Trans trans_a, const Tensor& b, Trans trans_b, const Tensor& c) {
  const std::int64_t m = trans_a == Trans::no ? a.rows() : a.columns();
  const std::int64_t k = trans_a == Trans::no ? a.columns() : a.rows();
  const std::int64_t n = trans_b == Trans::no ? b.columns() : b.rows();
  const std::int64_t kb = trans_b == Trans::no ? b.rows() : b.columns();
  FATHOM_CHECK(k == kb && c.rows() == m && c.columns() == n, "gemm of ", to_string(a.shape()),
               " and ", to_string(b.shape()), " into ", to_string(c.shape()));
  FATHOM_CHECK(a.dtype() == DType::f32 && c.dtype() == DType::f32 && b.dtype() != DType::i32,
               "gemm of ", to_string(a.dtype()), " and ", to_string(b.dtype()));
  return {m, n, k};
}

// f32 rows of a bf16 matrix, or bf16 rows of an f32 one, packed.
Tensor convert(const Tensor& source, DType dtype) {
  Tensor out = Tensor::empty(source.device(), {source.rows(), source.columns()}, dtype);
  const std::int64_t columns = source.columns(), stride = source.row_stride();
  if (dtype == DType::bf16) {
    const float* from = source.ptr<float>();
    bf16* to = out.ptr<bf16>();
    for_each_row(
        source.device(), source.rows(), columns, FATHOM_BODY(const Row& row, std::int64_t r) {
          row.each(columns,
                   [&](std::int64_t i) { to[r * columns + i] = to_bf16(from[r * stride + i]); });
        });
  } else {
    const bf16* from = source.ptr<bf16>();
    float* to = out.ptr<float>();
    for_each_row(
        source.device(), source.rows(), columns, FATHOM_BODY(const Row& row, std::int64_t r) {
          row.each(columns,
                   [&](std::int64_t i) { to[r * columns + i] = to_float(from[r * stride + i]); });
        });
  }
  return out;
}

}  // namespace

void gemm(const Tensor& a, Trans trans_a, const Tensor& b, Trans trans_b, const Tensor& c,
          float alpha, float beta) {
  const Extent e = check(a, trans_a, b, trans_b, c);
  if (e.m == 0 || e.n == 0) return;
  if (trans_a == Trans::no && alpha == 1.0f && beta == 0.0f && gemv_suits(e.m, trans_b)) {
    gemv(a, b, trans_b, {}, c);
    return;
  }
  if (b.dtype() == DType::bf16) {
    if (native_bf16() && alpha == 1.0f) {
      const Tensor narrow = convert(a, DType::bf16);
      KernelScope scope(c.device());
      gemm_bf16(trans_a, trans_b, e.m, e.n, e.k, narrow.ptr<bf16>(), narrow.row_stride(),
                b.ptr<bf16>(), b.row_stride(), beta, c.ptr<float>(), c.row_stride());
      return;
    }
    gemm(a, trans_a, convert(b, DType::f32), trans_b, c, alpha, beta);
    return;
  }
  KernelScope scope(c.device());
  sgemm(trans_a, trans_b, e.m, e.n, e.k, alpha, a.ptr<float>(), a.row_stride(), b.ptr<float>(),
        b.row_stride(), beta, c.ptr<float>(), c.row_stride());
}

}  // namespace fathom::kernels
