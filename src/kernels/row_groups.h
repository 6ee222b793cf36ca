#pragma once

#include "core/tensor.h"
#include "kernels/rows.h"

namespace fathom::kernels {

/// Sums down the columns of a matrix, [groups, n]: of each of at most 32 groups of neighbouring
/// rows, the sum of term(r, i) over its rows r in every column i. How rows are grouped, and the
/// order of a sum, depend on the shape alone. There must be a row. term must be a FATHOM_BODY
/// lambda.
template <typename Term>
Tensor sum_row_groups(Device& device, std::int64_t rows, std::int64_t n, Term term) {
  const std::int64_t groups = rows < 32 ? rows : 32;
  const std::int64_t blocks = (n + kColumnBlock - 1) / kColumnBlock;
  const std::int64_t columns = n < kColumnBlock ? n : kColumnBlock;  // of a block, at most
  const Tensor sums = Tensor::empty(device, {groups, n});
  float* out = sums.ptr<float>();
  for_each_row(
      device, groups * blocks, rows / groups * columns,
      FATHOM_BODY(const Row& row, std::int64_t b) {
        const std::int64_t g = b / blocks, first = b % blocks * kColumnBlock;
        const std::int64_t count = n - first < columns ? n - first : columns;
        const std::int64_t end = rows * (g + 1) / groups;
        float* to = out + g * n + first;
        row.each(count, [&](std::int64_t i) { to[i] = 0.0f; });
        std::int64_t r = rows * g / groups;
        // Four rows at a time: their loads need not wait for each other.
        for (; r + 4 <= end; r += 4)
          row.each(count, [&](std::int64_t i) {
            const std::int64_t c = first + i;
            to[i] += (term(r, c) + term(r + 1, c)) + (term(r + 2, c) + term(r + 3, c));
          });
        for (; r < end; ++r) row.each(count, [&](std::int64_t i) { to[i] += term(r, first + i); });
      });
  return sums;
}

}  // namespace fathom::kernels
