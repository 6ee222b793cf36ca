#pragma once

#include <cstdint>

#include "core/device.h"
#include "core/philox.h"

// A kernel is written once, over rows. for_each_row(device, rows, columns, body) calls
// body(row, r) for every r; `row` offers loops over the columns of one row:
//
//   row.each(n, f)      f(i) for i in [0, n), in any order
//   row.sum(n, f)       the sum of f(i)
//   row.max(n, f)       the largest f(i)
//   row.sums(n, f)      up to three sums in one pass: f(i) gives the terms of each as a Triple
//
// On the CPU a row is one iteration of an OpenMP loop with SIMD inside. For a GPU (FATHOM_GPU: nvcc, or
// g++ with the stand-ins of gpu/sim) the same source gives one thread block a row and block-wide
// reductions whose result every thread sees. A body may
// therefore keep only values that come from sum and max in its own variables; what one each()
// writes to memory, a later one may read after row.sync().

namespace fathom::kernels {

/// Three sums of a row, or what one column adds to them.
struct Triple {
  float a = 0.0f, b = 0.0f, c = 0.0f;
};

}  // namespace fathom::kernels

#if defined(FATHOM_GPU)
#define FATHOM_BODY [=] __device__
#include "gpu/rows_gpu.h"
#else
#define FATHOM_BODY [=] [[gnu::always_inline]]

namespace fathom::kernels {

// The loops are always inlined: GCC does not vectorise a reduction that it has put into a function
// of its own.
class Row {
 public:
  template <typename F>
  [[gnu::always_inline]] void each(std::int64_t n, F f) const {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) f(i);
  }

  template <typename F>
  [[gnu::always_inline]] float sum(std::int64_t n, F f) const {
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < n; ++i) total += f(i);
    return total;
  }

  template <typename F>
  [[gnu::always_inline]] Triple sums(std::int64_t n, F f) const {
    float a = 0.0f, b = 0.0f, c = 0.0f;
#pragma omp simd reduction(+ : a, b, c)
    for (std::int64_t i = 0; i < n; ++i) {
      const Triple term = f(i);
      a += term.a;
      b += term.b;
      c += term.c;
    }
    return {a, b, c};
  }

  template <typename F>
  [[gnu::always_inline]] float max(std::int64_t n, F f) const {
    float largest = -3.402823466e38f;
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < n; ++i) {
      const float value = f(i);
      largest = value > largest ? value : largest;
    }
    return largest;
  }

  void sync() const {}
};

/// Columns of a row of a kernel that goes down a matrix: all of them, since the threads have rows.
constexpr std::int64_t kColumnBlock = std::int64_t{1} << 40;

/// Elements below which starting the threads costs more than the work.
constexpr std::int64_t kSerialElements = 8192;

template <typename Body>
void for_each_row(Device& device, std::int64_t rows, std::int64_t columns, Body body) {
  KernelScope scope(device);
  const Row row;
  // A copy of the body in each thread: through a shared one, pointers would be loaded anew for
  // every element, and loops that add up would not vectorise.
#pragma omp parallel for schedule(static) \
    firstprivate(body) if (rows > 1 && rows * columns > kSerialElements)
  for (std::int64_t r = 0; r < rows; ++r) body(row, r);
}

}  // namespace fathom::kernels
#endif

namespace fathom::kernels {

/// Splits n elements into rows of this many, for element-wise kernels.
constexpr std::int64_t kElementRow = 4096;

/// f(i) for i in [0, n): an element-wise kernel. f must be a FATHOM_BODY lambda.
template <typename F>
void for_each_element(Device& device, std::int64_t n, F f) {
  for_each_row(
      device, (n + kElementRow - 1) / kElementRow, kElementRow,
      FATHOM_BODY(const Row& row, std::int64_t r) {
        const std::int64_t begin = r * kElementRow;
        const std::int64_t count = n - begin < kElementRow ? n - begin : kElementRow;
        row.each(count, [&](std::int64_t i) { f(begin + i); });
      });
}

}  // namespace fathom::kernels
