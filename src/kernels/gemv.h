#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "kernels/gemm.h"

namespace fathom::kernels {

/// Largest number of rows that gemv() takes.
constexpr std::int64_t kGemvRows = 32;

/// Whether gemv() multiplies so many rows by op(W) faster than a GEMM library does; gemm() asks.
inline bool gemv_suits(std::int64_t rows, Trans trans_w) {
  return rows >= 1 && rows <= (trans_w == Trans::yes ? kGemvRows : 4);
}

/// y [rows, n] = x [rows, k] op(W) + bias for the few rows of a decoding step, reading W from
/// memory once: W is [n, k] with Trans::yes (linear layers) or [k, n] with Trans::no (GPT-2).
/// W is f32 or bf16, all else and all sums f32; an undefined bias counts as zero. Row strides are
/// honoured. A row of y does not depend on the number of threads, nor with Trans::yes on the other
/// rows or their number.
void gemv(const Tensor& x, const Tensor& w, Trans trans_w, const Tensor& bias, const Tensor& y);

}  // namespace fathom::kernels
