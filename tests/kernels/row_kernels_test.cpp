// Properties of the row kernels that training leans on: sums that do not depend on the number of
// threads, dropout masks that do not depend on the batch, and AdamW against its definition.

#include <gtest/gtest.h>
#include <omp.h>

#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "random_values.h"
#include "tests/support/test_device.h"

namespace fathom::test {
namespace {

using Floats = std::vector<float>;

Floats random_floats(std::int64_t count, std::uint32_t seed) {
  return narrow(random_values(count, seed));
}

class RowKernels : public testing::Test {
 protected:
  Tensor matrix(std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
    return Tensor::from_host(*device_, {rows, columns}, random_floats(rows * columns, seed));
  }
  Tensor ids(const std::vector<std::int32_t>& values) {
    return Tensor::from_host(*device_, {static_cast<std::int64_t>(values.size())}, values);
  }
  std::unique_ptr<Device> device_ = make_test_device(std::size_t{256} << 20);
};

// Runs f with one thread and with two, and expects the same bits.
template <typename F>
void expect_same_on_threads(F f) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = f();
  omp_set_num_threads(2);
  const auto two = f();
  omp_set_num_threads(before);
  EXPECT_EQ(one, two);
}

// --- threads ---

TEST_F(RowKernels, ColumnSumsDoNotDependOnThreads) {
  for (const auto& [rows, columns] : {std::pair{1, 9000}, {31, 700}, {33, 1025}, {1000, 67}}) {
    const Tensor x = matrix(rows, columns, 1);
    expect_same_on_threads([&, n = columns] {
      const Tensor sums = Tensor::zeros(*device_, {n});
      kernels::accumulate_column_sums(x, sums);
      return to_host(sums);
    });
  }
}

TEST_F(RowKernels, ColumnSumsAreRight) {
  for (const auto& [rows, columns] :
       {std::pair{0, 67}, {1, 67}, {31, 67}, {32, 300}, {33, 257}, {1000, 67}, {161, 600}}) {
    const auto values = random_values(rows * columns, 2);
    const Tensor x = strided(*device_, rows, columns, values);
    const Tensor sums = Tensor::from_host(*device_, {columns}, random_floats(columns, 3));
    std::vector<double> expected = random_values(columns, 3);
    for (std::size_t i = 0; i < values.size(); ++i)
      expected[i % static_cast<std::size_t>(columns)] += values[i];
    kernels::accumulate_column_sums(x, sums);
    EXPECT_LT(largest_difference(to_host(sums), expected), 3e-5) << rows << " x " << columns;
  }
}

TEST_F(RowKernels, GradientNormsDoNotDependOnThreads) {
  const Tensor x = matrix(101, 999, 4);
  expect_same_on_threads([&] { return kernels::sum_of_squares(x); });
  double expected = 0;
  for (const double value : random_values(101 * 999, 4)) expected += value * value;
  EXPECT_NEAR(kernels::sum_of_squares(x), expected, 1e-6 * expected);
}

TEST_F(RowKernels, NormGradientsDoNotDependOnThreads) {
  const Tensor x = matrix(123, 257, 5), weight = matrix(1, 257, 6).view({257}),
               dy = matrix(123, 257, 7);
  for (const auto kind : {kernels::NormKind::layer, kernels::NormKind::rms}) {
    expect_same_on_threads([&] {
      const Tensor y = Tensor::empty(*device_, {123, 257}),
                   dx = Tensor::empty(*device_, {123, 257});
      const Tensor stats = Tensor::empty(*device_, {123, 2});
      const Tensor dweight = Tensor::zeros(*device_, {257}), dbias = Tensor::zeros(*device_, {257});
      kernels::norm_forward(kind, 1e-5f, x, weight, weight, y, stats);
      kernels::norm_backward(kind, x, weight, stats, dy, dx, false, dweight, dbias);
      return std::vector<Floats>{to_host(y), to_host(dx), to_host(dweight), to_host(dbias)};
    });
  }
}

TEST_F(RowKernels, EmbeddingGradientsDoNotDependOnThreads) {
  std::vector<std::int32_t> tokens;
  for (int t = 0; t < 300; ++t) tokens.push_back(t * 7 % 13);
  const Tensor dout = matrix(300, 200, 8), id = ids(tokens);
  expect_same_on_threads([&] {
    const Tensor table = Tensor::zeros(*device_, {13, 200});
    kernels::embedding_backward(dout, 0, id, table);
    return to_host(table);
  });
}

// --- dropout ---

struct Sequence {
  std::int32_t sample, length;
};

// The mask (0 or 1 / keep) of sequences packed one after the other.
class Dropout : public RowKernels {
 protected:
  kernels::Dropout dropout(const std::vector<Sequence>& sequences, float probability) {
    std::vector<std::int32_t> positions, samples;
    for (const Sequence& s : sequences)
      for (std::int32_t p = 0; p < s.length; ++p) {
        positions.push_back(p);
        samples.push_back(s.sample);
      }
    return {.probability = probability,
            .key0 = 42,
            .key1 = 3,
            .site = 6,
            .positions = ids(positions),
            .samples = ids(samples)};
  }

  Floats mask(const kernels::Dropout& d, std::int64_t columns) {
    const std::int64_t rows = d.positions.elements();
    const Tensor ones = Tensor::empty(*device_, {rows, columns});
    const Tensor y = Tensor::empty(*device_, {rows, columns});
    kernels::fill(ones, 1.0f);
    kernels::residual_forward({}, ones, {}, d, y);
    const Tensor back = Tensor::empty(*device_, {rows, columns});
    kernels::dropout_backward(ones, d, back);
    EXPECT_EQ(to_host(y), to_host(back)) << "forward and backward masks differ";
    return to_host(y);
  }
};

TEST_F(Dropout, DependsOnSamplePositionAndColumnAlone) {
  constexpr std::int64_t kColumns = 37;
  const std::vector<Sequence> order{{5, 4}, {9, 11}, {2, 1}}, other{{2, 1}, {5, 4}, {9, 11}};
  const Floats a = mask(dropout(order, 0.4f), kColumns), b = mask(dropout(other, 0.4f), kColumns);
  const auto rows = [&](const Floats& from, std::int64_t begin, std::int64_t count) {
    return Floats(from.begin() + begin * kColumns, from.begin() + (begin + count) * kColumns);
  };
  EXPECT_EQ(rows(a, 0, 4), rows(b, 1, 4));    // sample 5
  EXPECT_EQ(rows(a, 4, 11), rows(b, 5, 11));  // sample 9
  EXPECT_EQ(rows(a, 15, 1), rows(b, 0, 1));   // sample 2
  // A sequence cut short, and one of fewer columns, keep what they have.
  EXPECT_EQ(mask(dropout({{9, 3}}, 0.4f), kColumns), rows(a, 4, 3));
  const Floats narrower = mask(dropout({{9, 1}}, 0.4f), 10);
  EXPECT_EQ(narrower, Floats(a.begin() + 4 * kColumns, a.begin() + 4 * kColumns + 10));
}

TEST_F(Dropout, DiffersBetweenSitesStepsSeedsAndSamples) {
  const kernels::Dropout base = dropout({{7, 16}}, 0.5f);
  kernels::Dropout seed = base, step = base, site = base;
  ++seed.key0, ++step.key1, ++site.site;
  const Floats first = mask(base, 64);
  for (const kernels::Dropout& other : {seed, step, site, dropout({{8, 16}}, 0.5f)}) {
    const Floats second = mask(other, 64);
    double agree = 0;
    for (std::size_t i = 0; i < first.size(); ++i) agree += first[i] == second[i] ? 1 : 0;
    // 1024 fair coins: half agree, five deviations of 16 each way.
    EXPECT_NEAR(agree, 512, 80);
  }
}

TEST_F(Dropout, KeepsTheRightShareAndTheMean) {
  constexpr std::int64_t kRows = 400, kColumns = 250;
  for (const float probability : {0.1f, 0.5f, 0.9f}) {
    const Floats m = mask(dropout({{3, kRows}}, probability), kColumns);
    const float scale = 1.0f / (1.0f - probability);
    std::vector<double> kept_by_column(kColumns, 0.0);
    double kept = 0;
    for (std::size_t i = 0; i < m.size(); ++i) {
      ASSERT_TRUE(m[i] == 0.0f || m[i] == scale);
      if (m[i] == 0.0f) continue;
      ++kept;
      ++kept_by_column[i % kColumns];
    }
    // Five deviations of a binomial; one column has fewer draws.
    const double p = 1 - static_cast<double>(probability), n = kRows * kColumns;
    EXPECT_NEAR(kept, n * p, 5 * std::sqrt(n * p * (1 - p)));
    for (const double column : kept_by_column)
      EXPECT_NEAR(column, kRows * p, 5 * std::sqrt(kRows * p * (1 - p)));
  }
}

// --- AdamW ---

struct AdamState {
  std::vector<double> weight, first, second;
};

// One update in double, as Loshchilov and Hutter write it.
void defined_step(AdamState& s, const std::vector<double>& gradient, double scale, int step,
                  double lr, double decay) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kEps = 1e-8;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double g = gradient[i] * scale;
    s.first[i] = kBeta1 * s.first[i] + (1 - kBeta1) * g;
    s.second[i] = kBeta2 * s.second[i] + (1 - kBeta2) * g * g;
    const double m = s.first[i] / (1 - std::pow(kBeta1, step));
    const double v = s.second[i] / (1 - std::pow(kBeta2, step));
    s.weight[i] -= lr * decay * s.weight[i];
    s.weight[i] -= lr * m / (std::sqrt(v) + kEps);
  }
}

class AdamW : public RowKernels, public testing::WithParamInterface<double> {};

TEST_P(AdamW, FollowsItsDefinitionOverManySteps) {
  constexpr double kLr = 0.01;
  for (const std::int64_t size : {1, 63, 5000}) {
    AdamState expected{random_values(size, 1), std::vector<double>(static_cast<std::size_t>(size)),
                       std::vector<double>(static_cast<std::size_t>(size))};
    const Tensor weight = Tensor::from_host(*device_, {size}, narrow(expected.weight));
    const Tensor first = Tensor::zeros(*device_, {size}), second = Tensor::zeros(*device_, {size});
    const Tensor gradient = Tensor::zeros(*device_, {size});
    for (int step = 1; step <= 20; ++step) {
      const auto g = random_values(size, static_cast<std::uint32_t>(100 + step));
      const double scale = step % 3 == 0 ? 0.125 : 1.0;  // clipped now and then
      copy_from_host(gradient, narrow(g));
      kernels::adamw({.lr = static_cast<float>(kLr),
                      .beta1 = 0.9f,
                      .beta2 = 0.95f,
                      .eps = 1e-8f,
                      .weight_decay = static_cast<float>(GetParam()),
                      .correction1 = static_cast<float>(1 - std::pow(0.9, step)),
                      .correction2 = static_cast<float>(1 - std::pow(0.95, step)),
                      .gradient_scale = static_cast<float>(scale)},
                     weight, gradient, first, second);
      defined_step(expected, g, scale, step, kLr, GetParam());
      EXPECT_EQ(to_host(gradient), Floats(static_cast<std::size_t>(size), 0.0f));
    }
    // Each step rounds weights of order one once, and moves them by lr.
    EXPECT_LT(largest_difference(to_host(weight), expected.weight), 20 * 2e-7 * (1 + kLr));
    EXPECT_LT(largest_difference(to_host(first), expected.first), 2e-6);
    EXPECT_LT(largest_difference(to_host(second), expected.second), 2e-6);
  }
}
INSTANTIATE_TEST_SUITE_P(Decay, AdamW, testing::Values(0.0, 0.1));

// Without a gradient the weights only decay.
TEST_F(RowKernels, AdamWOfZeroGradientsDecaysOnly) {
  const Tensor weight = Tensor::from_host(*device_, {3}, Floats{1, -2, 4});
  const Tensor gradient = Tensor::zeros(*device_, {3}), first = Tensor::zeros(*device_, {3}),
               second = Tensor::zeros(*device_, {3});
  kernels::adamw({.lr = 0.5f, .weight_decay = 0.5f}, weight, gradient, first, second);
  EXPECT_EQ(to_host(weight), (Floats{0.75f, -1.5f, 3.0f}));
}

}  // namespace
}  // namespace fathom::test
