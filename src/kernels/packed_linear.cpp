#include "kernels/packed_linear.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "kernels/vector.h"

namespace fathom::kernels {
namespace {

// A block of kRows rows by kVectors vectors of sums fills most of the registers of its instruction
// set, and hides the latency of the multiply-adds.
constexpr int kRows = 6;
constexpr int kVectors = kLanes == 16 ? 4 : 2;
constexpr std::int64_t kPanel = kVectors * kLanes;

// y[r][0, columns) = bias + x[r] . panel for kRows rows, of which the first `rows` are stored. Each
// sum runs over the inputs in order, in one lane: that is what makes a row's bits its own.
template <int kV>
void block(const float* const (&x)[kRows], const float* panel, const float* bias,
           std::int64_t inputs, std::int64_t rows, std::int64_t columns, float* y,
           std::int64_t y_stride) {
  Vec sum[kRows][kV];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) sum[r][v] = load(bias + v * kLanes);
  for (std::int64_t i = 0; i < inputs; ++i, panel += kV * kLanes) {
    Vec w[kV];
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) w[v] = load(panel + v * kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const float value = x[r][i];
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) sum[r][v] += value * w[v];
    }
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (int v = 0; v < kV; ++v) {
      float* to = y + r * y_stride + v * kLanes;
      const std::int64_t count = columns - v * kLanes;
      if (count >= kLanes) {
        store(to, sum[r][v]);
      } else {
        for (std::int64_t c = 0; c < count; ++c) to[c] = sum[r][v][c];
      }
    }
}

std::int64_t vectors_of(std::int64_t columns) {
  return (columns + kLanes - 1) / kLanes;
}

}  // namespace

PackedLinear::PackedLinear(const float* weight, const float* bias, std::int64_t outputs,
                           std::int64_t inputs)
    : outputs_(outputs), inputs_(inputs) {
  const std::int64_t padded = vectors_of(outputs) * kLanes;
  bias_.assign(static_cast<std::size_t>(padded), 0.0f);
  if (bias != nullptr) std::copy_n(bias, outputs, bias_.begin());
  weights_.reserve(static_cast<std::size_t>(padded * inputs));
  for (std::int64_t first = 0; first < outputs; first += kPanel) {
    const std::int64_t width = std::min(kPanel, padded - first);
    for (std::int64_t i = 0; i < inputs; ++i)
      for (std::int64_t c = first; c < first + width; ++c)
        weights_.push_back(c < outputs ? weight[c * inputs + i] : 0.0f);
  }
}

void PackedLinear::apply(const float* x, std::int64_t x_stride, std::int64_t rows, float* y,
                         std::int64_t y_stride) const {
  for (std::int64_t row = 0; row < rows; row += kRows) {
    // A block that is not full repeats the last row.
    const std::int64_t count = std::min<std::int64_t>(kRows, rows - row);
    const float* in[kRows];
    for (int r = 0; r < kRows; ++r)
      in[r] = x + (row + std::min<std::int64_t>(r, count - 1)) * x_stride;
    const float* panel = weights_.data();
    for (std::int64_t first = 0; first < outputs_; first += kPanel) {
      const std::int64_t columns = std::min(kPanel, outputs_ - first);
      const std::int64_t vectors = vectors_of(columns);
      const auto run = [&](auto width) {
        block<width()>(in, panel, bias_.data() + first, inputs_, count, columns,
                       y + row * y_stride + first, y_stride);
      };
      if (vectors == 4) run(std::integral_constant<int, kVectors>{});
      if (vectors == 3) run(std::integral_constant<int, std::min(kVectors, 3)>{});
      if (vectors == 2) run(std::integral_constant<int, 2>{});
      if (vectors == 1) run(std::integral_constant<int, 1>{});
      panel += vectors * kLanes * inputs_;
    }
  }
}

MaxoutLayer::MaxoutLayer(PackedLinear linear, std::vector<float> gain, std::vector<float> shift)
    : linear_(std::move(linear)), gain_(std::move(gain)), shift_(std::move(shift)) {
  FATHOM_CHECK(width() > 0 && shift_.size() == gain_.size() && linear_.outputs() % width() == 0 &&
                   width() % kLanes == 0,
               "a maxout layer of ", linear_.outputs(), " outputs and width ", width());
}

void MaxoutLayer::finish(const float* pieces, const float* residual, float* out) const {
  const std::int64_t n = width();
  Vec sum = {};
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec best = load(pieces + i);
    for (std::int64_t p = n; p < linear_.outputs(); p += n) {
      const Vec other = load(pieces + p + i);
      best = other > best ? other : best;
    }
    store(out + i, best);
    sum += best;
  }
  const float mean = sum_of(sum) / static_cast<float>(n);
  Vec squares = {};
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const Vec centred = load(out + i) - mean;
    squares += centred * centred;
  }
  const float scale = 1.0f / std::sqrt(sum_of(squares) / static_cast<float>(n) + 1e-8f);
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec y = (load(out + i) - mean) * scale * load(gain_.data() + i) + load(shift_.data() + i);
    if (residual != nullptr) y += load(residual + i);
    store(out + i, y);
  }
}

void MaxoutLayer::apply(const float* x, std::int64_t x_stride, std::int64_t rows,
                        const float* residual, float* out) const {
  // So few rows that their pieces are still in the cache when the maximum is taken.
  constexpr std::int64_t kTile = 8 * kRows;
  const std::int64_t n = width(), outputs = linear_.outputs();
  std::vector<float> pieces(static_cast<std::size_t>(std::min(kTile, rows) * outputs));
  for (std::int64_t first = 0; first < rows; first += kTile) {
    const std::int64_t count = std::min(kTile, rows - first);
    linear_.apply(x + first * x_stride, x_stride, count, pieces.data(), outputs);
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t at = (first + r) * n;
      finish(pieces.data() + r * outputs, residual ? residual + at : nullptr, out + at);
    }
  }
}

}  // namespace fathom::kernels
