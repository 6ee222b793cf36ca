#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace fathom::kernels {

enum class Trans : bool { no, yes };

/// What may become of f32 factors on a device whose precision is less.
enum class Factors {
  rounded,  ///< to that precision
  exact     ///< nothing: for scores that decide, and states that are compared
};

/// The matrix as its device multiplies it: rounded and in bf16 if that is its precision, else `x`
/// itself. For a factor of several products, which would otherwise be rounded for each of them.
Tensor as_factor(const Tensor& x);

/// C = alpha op(A) op(B) + beta C for matrices (all leading dims of a tensor count as rows), with
/// op(A) [m, k], op(B) [k, n], C [m, n]. C is f32 and all sums are. A is f32, or comes from
/// as_factor(). Factors are rounded to the device's precision unless they are to stay exact. B may
/// be bf16: then A is rounded to it as well where bf16 is multiplied natively and factors need not
/// stay exact; elsewhere B is widened. For the few rows of gemv.h products of f32 are f32
/// throughout. Row strides are honoured. With beta 0 what C holds does not matter; with k 0 the
/// product is zero. Uses all threads of the caller.
void gemm(const Tensor& a, Trans trans_a, const Tensor& b, Trans trans_b, const Tensor& c,
          float alpha = 1.0f, float beta = 0.0f, Factors factors = Factors::rounded);

/// C = A op(B) + bias, the same vector for every row, as gemm() and in as few passes over C as the
/// library has for it. An undefined bias is none.
void gemm_bias(const Tensor& a, const Tensor& b, Trans trans_b, const Tensor& bias, const Tensor& c,
               Factors factors = Factors::rounded);

/// Name and version of the library behind gemm, and whether it multiplies bf16 natively here.
const char* gemm_library();
bool native_bf16();

}  // namespace fathom::kernels
