#pragma once

#include "core/dtype.h"
#include "kernels/gemv.h"

// What gemv() of every backend begins with.

namespace fathom::kernels {

/// y [rows, n] = x [rows, k] op(W) + bias, as raw memory; a null bias counts as zero.
template <typename W>
struct GemvProduct {
  const float* x;
  std::int64_t x_stride;
  const W* w;
  std::int64_t w_stride;
  const float* bias;
  float* y;
  std::int64_t y_stride;
  std::int64_t n, k;
};

/// Calls f with the GemvProduct of W's type. Throws Error(internal) where the tensors do not fit.
template <typename F>
void with_gemv_product(const Tensor& x, const Tensor& w, Trans trans_w, const Tensor& bias,
                       const Tensor& y, F f) {
  const std::int64_t n = trans_w == Trans::yes ? w.rows() : w.columns();
  const std::int64_t k = trans_w == Trans::yes ? w.columns() : w.rows();
  FATHOM_CHECK(x.rows() >= 1 && x.rows() <= kGemvRows && x.columns() == k && y.rows() == x.rows() &&
                   y.columns() == n,
               "gemv of ", to_string(x.shape()), " and ", to_string(w.shape()), " into ",
               to_string(y.shape()));
  FATHOM_CHECK(x.dtype() == DType::f32 && y.dtype() == DType::f32 && w.dtype() != DType::i32,
               "gemv of ", to_string(x.dtype()), " and ", to_string(w.dtype()));
  FATHOM_CHECK(!bias.defined() || bias.elements() == n, "bias ", to_string(bias.shape()), " for ",
               n, " outputs");
  const auto call = [&]<typename W>(const W* weights) {
    f(GemvProduct<W>{x.ptr<float>(), x.row_stride(), weights, w.row_stride(),
                     bias.defined() ? bias.ptr<float>() : nullptr, y.ptr<float>(), y.row_stride(),
                     n, k});
  };
  if (w.dtype() == DType::bf16) {
    call(w.ptr<const bf16>());
  } else {
    call(w.ptr<const float>());
  }
}

}  // namespace fathom::kernels
