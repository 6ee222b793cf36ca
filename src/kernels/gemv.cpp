#include <algorithm>
#include <omp.h>
#include <type_traits>

#include "kernels/gemv_product.h"
#include "kernels/vector.h"

namespace fathom::kernels {
namespace {

template <typename W>
using Product = GemvProduct<W>;

float value(float x) {
  return x;
}
float value(bf16 x) {
  return to_float(x);
}

// Asks for the kR rows of W that come next, in the order of their addresses: memory answers one
// long stream faster than the short ones in which they will be read.
template <int kR, typename W>
class Ahead {
 public:
  explicit Ahead(const W* rows) : next_(reinterpret_cast<const char*>(rows)) {}
  // To be called once for each vector of columns of the present rows.
  void prefetch(std::int64_t column) const {
    constexpr std::int64_t kStep = kR * sizeof(W) * kLanes, kLine = 64;
    const std::int64_t offset = column * kR * static_cast<std::int64_t>(sizeof(W));
    if (offset % kLine != 0) return;
    for (std::int64_t line = 0; line < kStep; line += kLine)
      __builtin_prefetch(next_ + offset + line);
  }

 private:
  const char* next_;
};

// Outputs [j, j + kR) of kB rows of x; W is [n, k] and kR of its rows are read side by side.
template <int kB, int kR, typename W>
void dot_rows(const Product<W>& p, std::int64_t j) {
  Vec sum[kR][kB] = {};
  const W* rows = p.w + j * p.w_stride;
  const Ahead<kR, W> ahead(rows + kR * p.w_stride);
  std::int64_t i = 0;
  for (; i + kLanes <= p.k; i += kLanes) {
    Vec x[kB];
#pragma GCC unroll 8
    for (int b = 0; b < kB; ++b) x[b] = load(p.x + b * p.x_stride + i);
    ahead.prefetch(i);
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
      const Vec w = load(rows + r * p.w_stride + i);
#pragma GCC unroll 8
      for (int b = 0; b < kB; ++b) sum[r][b] += w * x[b];
    }
  }
  for (int r = 0; r < kR; ++r)
    for (int b = 0; b < kB; ++b) {
      float total = sum_of(sum[r][b]);
      for (std::int64_t t = i; t < p.k; ++t)
        total += value(rows[r * p.w_stride + t]) * p.x[b * p.x_stride + t];
      p.y[b * p.y_stride + j + r] = total + (p.bias ? p.bias[j + r] : 0.0f);
    }
}

// Rows of W side by side: a long stream from memory for few rows of x, and as many sums as the
// registers hold for four.
template <int kB, typename W>
void dot_range(const Product<W>& p, std::int64_t begin, std::int64_t end) {
  constexpr int kR = kB <= 2 ? 16 / static_cast<int>(sizeof(W)) : kLanes / 4;
  std::int64_t j = begin;
  for (; j + kR <= end; j += kR) dot_rows<kB, kR>(p, j);
  for (; j < end; ++j) dot_rows<kB, 1>(p, j);
}

// sums[kB, n] += columns [begin, end) of the kR rows of W [k, n] from row i on, weighted by x.
template <int kB, int kR, typename W>
void add_rows(const Product<W>& p, std::int64_t i, std::int64_t begin, std::int64_t end,
              float* sums) {
  float x[kB][kR];
  for (int b = 0; b < kB; ++b)
    for (int r = 0; r < kR; ++r) x[b][r] = p.x[b * p.x_stride + i + r];
  const W* rows = p.w + i * p.w_stride;
  const Ahead<kR, W> ahead(rows + kR * p.w_stride);
  std::int64_t j = begin;
  for (; j + kLanes <= end; j += kLanes) {
    if (kB == 1) ahead.prefetch(j);
    Vec w[kR];
#pragma GCC unroll 4
    for (int r = 0; r < kR; ++r) {
      const W* at = rows + r * p.w_stride + j;
      if (kB > 1) __builtin_prefetch(at + kR * p.w_stride);
      w[r] = load(at);
    }
#pragma GCC unroll 8
    for (int b = 0; b < kB; ++b) {
      Vec sum = load(sums + b * p.n + j);
#pragma GCC unroll 4
      for (int r = 0; r < kR; ++r) sum += x[b][r] * w[r];
      store(sums + b * p.n + j, sum);
    }
  }
  for (; j < end; ++j)
    for (int b = 0; b < kB; ++b)
      for (int r = 0; r < kR; ++r) sums[b * p.n + j] += x[b][r] * value(rows[r * p.w_stride + j]);
}

// sums[kB, n] = rows [first, last) of W [k, n], weighted by x.
template <int kB, typename W>
void weigh_rows(const Product<W>& p, std::int64_t first, std::int64_t last, float* sums) {
  // One row of sums stays in the cache whole; of several, as many columns as it holds.
  constexpr int kR = 4;
  const std::int64_t chunk = kB == 1 ? p.n : 4096 / kB;
  std::fill_n(sums, kB * p.n, 0.0f);
  for (std::int64_t begin = 0; begin < p.n; begin += chunk) {
    const std::int64_t end = std::min(p.n, begin + chunk);
    std::int64_t i = first;
    for (; i + kR <= last; i += kR) add_rows<kB, kR>(p, i, begin, end, sums);
    for (; i < last; ++i) add_rows<kB, 1>(p, i, begin, end, sums);
  }
}

// Columns [begin, end) of row b of y = bias plus the parts, which lie `each` floats apart.
template <typename W>
void total(const Product<W>& p, int b, std::int64_t begin, std::int64_t end, std::int64_t parts,
           std::int64_t each, const float* sums) {
  float* y = p.y + b * p.y_stride;
  for (std::int64_t j = begin; j < end; ++j) y[j] = p.bias ? p.bias[j] : 0.0f;
  for (std::int64_t part = 0; part < parts; ++part) {
    const float* own = sums + part * each;
#pragma omp simd
    for (std::int64_t j = begin; j < end; ++j) y[j] += own[j];
  }
}

// Below this many products the threads cost more than they save.
constexpr std::int64_t kSerialProducts = 32768;

// More rows of x are taken in groups of so many, whose vectors stay in the first cache.
constexpr int kGroup = 4;

// The product of the rows of x from `row` on.
template <typename W>
Product<W> from_row(Product<W> p, std::int64_t row) {
  p.x += row * p.x_stride;
  p.y += row * p.y_stride;
  return p;
}

// Calls f(constant<rows>, product) for each group of rows.
template <typename W, typename F>
void each_group(const Product<W>& p, std::int64_t rows, F f) {
  std::int64_t row = 0;
  for (; row + kGroup <= rows; row += kGroup)
    f(std::integral_constant<int, kGroup>(), from_row(p, row));
  const Product<W> rest = from_row(p, row);
  if (rows - row == 1) f(std::integral_constant<int, 1>(), rest);
  if (rows - row == 2) f(std::integral_constant<int, 2>(), rest);
  if (rows - row == 3) f(std::integral_constant<int, 3>(), rest);
}

// W is [n, k]: a thread takes a run of outputs, cut at whole cache lines of y. It reads the rows of
// W that belong to a unit of outputs from memory for the first group of rows of x, and finds them
// in the second cache for the others.
template <typename W>
void multiply_transposed(const Product<W>& p, std::int64_t rows) {
  const std::int64_t unit = rows <= kGroup ? 16 : 32, units = (p.n + unit - 1) / unit;
#pragma omp parallel if (rows * p.n * p.k > kSerialProducts)
  {
    const std::int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const std::int64_t last = units * (thread + 1) / threads;
    // A single group takes the whole run at once.
    const std::int64_t step = rows <= kGroup ? units : 1;
    for (std::int64_t u = units * thread / threads; u < last; u += step)
      each_group(p, rows, [&](auto group, const Product<W>& own) {
        dot_range<group()>(own, u * unit, std::min(p.n, std::min(last, u + step) * unit));
      });
  }
}

// W is [k, n]: a thread takes runs of whole rows, so that it reads one stream. The number of runs
// depends on k alone, and so do the bits of their total.
template <int kB, typename W>
void multiply_plain(const Product<W>& p, std::int64_t parts, float* sums) {
  constexpr std::int64_t kColumns = 256;
  const std::int64_t each = kB * p.n;
#pragma omp parallel if (p.n * p.k > kSerialProducts)
  {
#pragma omp for schedule(static)
    for (std::int64_t part = 0; part < parts; ++part)
      weigh_rows<kB>(p, p.k * part / parts, p.k * (part + 1) / parts, sums + part * each);
#pragma omp for schedule(static)
    for (std::int64_t begin = 0; begin < p.n; begin += kColumns)
      for (int b = 0; b < kB; ++b)
        total(p, b, begin, std::min(p.n, begin + kColumns), parts, each, sums + b * p.n);
  }
}

template <typename W>
void multiply(const Product<W>& p, Trans trans_w, std::int64_t rows, Device& device) {
  if (trans_w == Trans::yes) {
    multiply_transposed(p, rows);
    return;
  }
  const std::int64_t parts = std::clamp<std::int64_t>(p.k / 32, 1, 16);
  const Tensor sums = Tensor::empty(device, {parts, std::min<std::int64_t>(rows, kGroup) * p.n});
  each_group(p, rows, [&](auto group, const Product<W>& own) {
    multiply_plain<group()>(own, parts, sums.ptr<float>());
  });
}

}  // namespace

void gemv(const Tensor& x, const Tensor& w, Trans trans_w, const Tensor& bias, const Tensor& y) {
  with_gemv_product(x, w, trans_w, bias, y, [&](const auto& product) {
    const KernelScope scope(y.device());
    multiply(product, trans_w, x.rows(), y.device());
  });
}

}  // namespace fathom::kernels
