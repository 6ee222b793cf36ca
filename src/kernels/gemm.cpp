#include "kernels/gemm.h"

#include "kernels/elementwise.h"
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
  const bool rounded = a.dtype() == DType::bf16 && precision_of(a.device()) == Precision::bf16;
  FATHOM_CHECK(
      (a.dtype() == DType::f32 || rounded) && c.dtype() == DType::f32 && b.dtype() != DType::i32,
      "gemm of ", to_string(a.dtype()), " and ", to_string(b.dtype()));
  return {m, n, k};
}

// The matrix in bf16. Rows begin at multiples of 16 bytes, which tensor cores are fed in.
Tensor narrow(const Tensor& source, float factor) {
  const std::int64_t columns = source.columns(), stride = source.row_stride();
  const std::int64_t wide = (columns + 7) / 8 * 8;
  const Tensor out = Tensor::empty(source.device(), {source.rows(), wide}, DType::bf16);
  const float* from = source.ptr<float>();
  bf16* to = out.ptr<bf16>();
  for_each_row(
      source.device(), source.rows(), columns, FATHOM_BODY(const Row& row, std::int64_t r) {
        row.each(columns, [&](std::int64_t i) {
          to[r * wide + i] = to_bf16(factor * from[r * stride + i]);
        });
      });
  return out.slice_columns(0, columns);
}

Tensor widen(const Tensor& source) {
  const std::int64_t columns = source.columns(), stride = source.row_stride();
  const Tensor out = Tensor::empty(source.device(), {source.rows(), columns});
  const bf16* from = source.ptr<bf16>();
  float* to = out.ptr<float>();
  for_each_row(
      source.device(), source.rows(), columns, FATHOM_BODY(const Row& row, std::int64_t r) {
        row.each(columns,
                 [&](std::int64_t i) { to[r * columns + i] = to_float(from[r * stride + i]); });
      });
  return out;
}

// C = beta C, where what C holds does not matter with beta 0.
void scale_rows(const Tensor& c, float beta) {
  if (beta == 1.0f) return;
  const std::int64_t columns = c.columns(), stride = c.row_stride();
  float* p = c.ptr<float>();
  for_each_row(
      c.device(), c.rows(), columns, FATHOM_BODY(const Row& row, std::int64_t r) {
        row.each(columns, [&](std::int64_t i) {
          p[r * stride + i] = beta == 0.0f ? 0.0f : beta * p[r * stride + i];
        });
      });
}

bool takes_gemv(const Tensor& a, Trans trans_b) {
  return a.dtype() == DType::f32 && gemv_suits(a.rows(), trans_b);
}

// What the factors are multiplied as.
Precision choose(Device& device, DType b, Factors factors) {
  if (factors == Factors::exact) return Precision::f32;
  return b == DType::bf16 && native_bf16() ? Precision::bf16 : precision_of(device);
}

// The product where gemv() does not suit, and k is not 0.
void run(const Extent& e, const Tensor& a, Trans trans_a, const Tensor& b, Trans trans_b,
         const Tensor& c, float alpha, float beta, Factors factors, const float* bias) {
  Device& device = c.device();
  const Precision precision = choose(device, b.dtype(), factors);
  Tensor left = a, right = b;
  if (precision == Precision::bf16) {
    if (a.dtype() == DType::f32) {
      left = narrow(a, alpha);
      alpha = 1.0f;
    }
    if (b.dtype() == DType::f32) right = narrow(b, 1.0f);
  } else if (b.dtype() == DType::bf16) {
    right = widen(b);
  }
  FATHOM_CHECK(left.dtype() == right.dtype(), "a product of ", to_string(left.dtype()),
               " that is to be exact");
  const KernelScope scope(device);
  multiply(device, {trans_a, trans_b, e.m, e.n, e.k, precision, left.ptr<void>(), left.row_stride(),
                    right.ptr<void>(), right.row_stride(), alpha, beta, c.ptr<float>(),
                    c.row_stride(), bias});
}

}  // namespace

Tensor as_factor(const Tensor& x) {
  return x.dtype() == DType::f32 && precision_of(x.device()) == Precision::bf16 ? narrow(x, 1.0f)
                                                                                : x;
}

void gemm(const Tensor& a, Trans trans_a, const Tensor& b, Trans trans_b, const Tensor& c,
          float alpha, float beta, Factors factors) {
  const Extent e = check(a, trans_a, b, trans_b, c);
  if (e.m == 0 || e.n == 0) return;
  if (e.k == 0) {
    scale_rows(c, beta);
  } else if (trans_a == Trans::no && alpha == 1.0f && beta == 0.0f && takes_gemv(a, trans_b)) {
    gemv(a, b, trans_b, {}, c);
  } else {
    run(e, a, trans_a, b, trans_b, c, alpha, beta, factors, nullptr);
  }
}

void gemm_bias(const Tensor& a, const Tensor& b, Trans trans_b, const Tensor& bias, const Tensor& c,
               Factors factors) {
  const Extent e = check(a, Trans::no, b, trans_b, c);
  if (e.m > 0 && e.k > 0 && takes_gemv(a, trans_b)) {
    gemv(a, b, trans_b, bias, c);
  } else if (e.m > 0 && e.k > 0 && bias.defined() && adds_bias(e.n, e.k)) {
    FATHOM_CHECK(bias.elements() == e.n, "bias ", to_string(bias.shape()), " for ", e.n,
                 " outputs");
    run(e, a, Trans::no, b, trans_b, c, 1.0f, 0.0f, factors, bias.ptr<float>());
  } else {
    gemm(a, Trans::no, b, trans_b, c, 1.0f, 0.0f, factors);
    if (bias.defined()) add_bias(c, bias);
  }
}

}  // namespace fathom::kernels
