// Row on the GPU's side: the loops and reductions that all single-source kernels are made of,
// against plain C++, and the same bits in every order of threads and blocks.

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/rows.h"
#include "sim_fixture.h"

namespace fathom::test {
namespace {

using kernels::Row;
using kernels::Triple;
using Floats = std::vector<float>;

Floats random_floats(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

struct Size {
  std::int64_t rows, columns;
};

// Fewer columns than a warp, just around one and around a block, and more rows than columns.
const Size kSizes[] = {{1, 1}, {3, 31}, {5, 32}, {4, 33}, {2, 255}, {3, 256}, {2, 257}, {70, 40}};

/// The GPU's for_each_row without a Device, on the default stream.
template <typename Body>
void run_rows(const Size& size, Body body, unsigned blocks = 0) {
  gpu::launch(kernels::row_kernel<Body>, blocks ? blocks : static_cast<unsigned>(size.rows),
              kernels::row_threads(size.columns), 0, nullptr, size.rows, body);
}

class SimRows : public SimTest {
 protected:
  // run(size, input, output) launches kernels that write `outputs` values a row; expected(row
  // values) gives them. A sum of n terms in [-1, 1] is off by n/2 ulp of its largest partial sum at
  // most.
  template <typename Run, typename Expected>
  void check(std::int64_t outputs, Run run, Expected expected) {
    for (const Size& size : kSizes) {
      const Floats input = random_floats(size.rows * size.columns, 7);
      Floats first;
      in_all_orders([&](const std::string& orders) {
        SCOPED_TRACE(orders + ", " + std::to_string(size.rows) + " x " +
                     std::to_string(size.columns));
        const DeviceArray<float> in(input);
        const DeviceArray<float> out(
            static_cast<std::size_t>(size.rows * (outputs ? outputs : size.columns)));
        run(size, in.data(), out.data());
        const Floats result = out.values();
        if (first.empty()) first = result;
        EXPECT_EQ(result, first);
      });
      const std::int64_t width = outputs ? outputs : size.columns;
      for (std::int64_t r = 0; r < size.rows; ++r) {
        const std::vector<double> want = expected(std::vector<double>(
            input.begin() + r * size.columns, input.begin() + (r + 1) * size.columns));
        const double bound = std::max(1.0, static_cast<double>(size.columns)) *
                             static_cast<double>(size.columns) * 6e-8;
        for (std::int64_t k = 0; k < width; ++k)
          EXPECT_NEAR(first[static_cast<std::size_t>(r * width + k)],
                      want[static_cast<std::size_t>(k)], bound);
      }
    }
  }
};

double sum_of(const std::vector<double>& values, int power) {
  double sum = 0;
  for (const double value : values) sum += std::pow(value, power);
  return sum;
}

TEST_F(SimRows, Each) {
  check(
      0,
      [](const Size& size, const float* in, float* out) {
        const std::int64_t n = size.columns;
        run_rows(
            size, FATHOM_BODY(const Row& row, std::int64_t r) {
              row.each(n, [=](std::int64_t i) { out[r * n + i] = 2.0f * in[r * n + i]; });
            });
      },
      [](std::vector<double> row) {
        for (double& value : row) value *= 2;
        return row;
      });
}

TEST_F(SimRows, Sum) {
  check(
      1,
      [](const Size& size, const float* in, float* out) {
        const std::int64_t n = size.columns;
        run_rows(
            size, FATHOM_BODY(const Row& row, std::int64_t r) {
              const float sum = row.sum(n, [=](std::int64_t i) { return in[r * n + i]; });
              row.each(1, [=](std::int64_t) { out[r] = sum; });
            });
      },
      [](const std::vector<double>& row) { return std::vector{sum_of(row, 1)}; });
}

TEST_F(SimRows, Sums) {
  check(
      3,
      [](const Size& size, const float* in, float* out) {
        const std::int64_t n = size.columns;
        run_rows(
            size, FATHOM_BODY(const Row& row, std::int64_t r) {
              const Triple sums = row.sums(n, [=](std::int64_t i) {
                const float x = in[r * n + i];
                return Triple{x, x * x, x * x * x};
              });
              row.each(1, [=](std::int64_t) {
                out[3 * r] = sums.a;
                out[3 * r + 1] = sums.b;
                out[3 * r + 2] = sums.c;
              });
            });
      },
      [](const std::vector<double>& row) {
        return std::vector{sum_of(row, 1), sum_of(row, 2), sum_of(row, 3)};
      });
}

TEST_F(SimRows, MaxThenSum) {  // a softmax: one reduction uses another's result
  check(
      0,
      [](const Size& size, const float* in, float* out) {
        const std::int64_t n = size.columns;
        run_rows(
            size, FATHOM_BODY(const Row& row, std::int64_t r) {
              const float* x = in + r * n;
              const float max = row.max(n, [=](std::int64_t i) { return x[i]; });
              const float sum = row.sum(n, [=](std::int64_t i) { return expf(x[i] - max); });
              row.each(n, [=](std::int64_t i) { out[r * n + i] = expf(x[i] - max) / sum; });
            });
      },
      [](std::vector<double> row) {
        double sum = 0;
        for (double& value : row) sum += value = std::exp(value);
        for (double& value : row) value /= sum;
        return row;
      });
}

TEST_F(SimRows, WhatOneLoopWritesAnotherReadsAfterSync) {
  check(
      0,
      [](const Size& size, const float* in, float* out) {
        const std::int64_t n = size.columns;
        run_rows(
            size, FATHOM_BODY(const Row& row, std::int64_t r) {
              float* y = out + r * n;
              row.each(n, [=](std::int64_t i) { y[i] = in[r * n + i]; });
              row.sync();
              const float last = y[n - 1];
              row.sync();
              row.each(n, [=](std::int64_t i) { y[i] -= last; });
            });
      },
      [](std::vector<double> row) {
        const double last = row.back();
        for (double& value : row) value -= last;
        return row;
      });
}

TEST_F(SimRows, ABlockTakesSeveralRows) {
  const Size size{11, 300};
  const DeviceArray<float> in(random_floats(size.rows * size.columns, 3));
  const DeviceArray<float> few(11), all(11);
  const auto sums = [&](float* out) {
    const float* x = in.data();
    return FATHOM_BODY(const Row& row, std::int64_t r) {
      const float sum = row.sum(300, [=](std::int64_t i) { return x[r * 300 + i]; });
      row.each(1, [=](std::int64_t) { out[r] = sum; });
    };
  };
  run_rows(size, sums(all.data()));
  run_rows(size, sums(few.data()), 2);
  EXPECT_EQ(few.values(), all.values());
}

}  // namespace
}  // namespace fathom::test
