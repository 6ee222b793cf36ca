// Late layers' logits in one pass, against the definition in double precision and against the
// passes of a vocabulary that is spread over ranks.

#include "kernels/vote.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "kernels/mixture.h"
#include "random_values.h"
#include "tests/support/test_device.h"

namespace fathom::kernels {
namespace {

using Doubles = std::vector<double>;

constexpr std::int64_t kRows = 7, kVocab = 85;  // neither a multiple of a vector
constexpr float kWeight = 0.75f;

struct Numbers {
  std::vector<float> logits, results;
};

struct Case {
  std::int64_t k;
  float temperature;
  Doubles layers = test::random_values(k * kRows * kVocab, 1);
  Doubles weights = test::random_values(kRows * k, 2);
  std::vector<std::int32_t> labels = {0, 84, 17, 3, 3, 60, 41};

  double layer(std::int64_t j, std::int64_t r, std::int64_t i) const {
    return layers[static_cast<std::size_t>((j * kRows + r) * kVocab + i)];
  }
  TokenLoss loss() const {
    return {.ce_weight = 0, .kd_weight = kWeight, .temperature = temperature};
  }
};

// Runs `passes` on the blocks of the mixture and the layers.
template <typename Passes>
Numbers run(const Case& c, Passes passes) {
  const auto device = test::make_test_device(std::size_t{16} << 20);
  std::vector<float> blocks(static_cast<std::size_t>(kRows * kVocab), NAN);
  blocks.insert(blocks.end(), c.layers.begin(), c.layers.end());
  const Tensor logits = Tensor::from_host(*device, {(c.k + 1) * kRows, kVocab}, blocks);
  const Tensor weights = Tensor::from_host(*device, {kRows, c.k}, test::narrow(c.weights));
  const Tensor labels = Tensor::from_host(*device, {kRows}, c.labels);
  const Tensor results = Tensor::empty(*device, {(c.k - 1) * kRows, kLossResults});
  passes(logits, weights, labels, results);
  return {to_host(logits), to_host(results)};
}

Numbers in_one_pass(const Case& c, bool gradient) {
  return run(c, [&](const Tensor& logits, const Tensor& weights, const Tensor& labels,
                    const Tensor& results) {
    vote(c.loss(), logits, weights, labels, results, gradient);
  });
}

Numbers in_stages(const Case& c, bool gradient) {
  return run(c, [&](const Tensor& logits, const Tensor& weights, const Tensor& labels,
                    const Tensor& results) {
    const auto block = [](const Tensor& blocks, std::int64_t index) {
      return blocks.slice_rows(index * kRows, kRows);
    };
    for (std::int64_t j = 0; j < c.k; ++j)
      weigh_rows(block(logits, 1 + j), weights, j, block(logits, 0), j > 0);
    const Tensor maxima = Tensor::empty(logits.device(), {kRows, kLossMaxima});
    const Tensor sums = Tensor::empty(logits.device(), {kRows, kLossSums});
    for (std::int64_t j = 0; j + 1 < c.k; ++j) {
      const LogitChunk pair{
          .student = block(logits, 1 + j), .teacher = block(logits, c.k), .labels = labels};
      loss_maxima(c.loss(), pair, maxima);
      loss_sums(c.loss(), pair, maxima, sums);
      loss_gradient(c.loss(), pair, maxima, sums, {}, block(results, j), gradient);
    }
  });
}

// Of one row of one layer.
struct Softmax {
  Doubles p;
  double log_sum = 0;

  Softmax(const Case& c, std::int64_t j, std::int64_t r) {
    double sum = 0;
    for (std::int64_t i = 0; i < kVocab; ++i) {
      p.push_back(std::exp(c.layer(j, r, i) / c.temperature));
      sum += p.back();
    }
    for (double& value : p) value /= sum;
    log_sum = std::log(sum);
  }
};

// The logits that the definition leaves behind, and each pair's divergence.
struct Definition {
  Doubles logits, divergences;
};

Definition define(const Case& c) {
  Definition made;
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t i = 0; i < kVocab; ++i) {
      double mixed = 0;
      for (std::int64_t j = 0; j < c.k; ++j)
        mixed += c.weights[static_cast<std::size_t>(r * c.k + j)] * c.layer(j, r, i);
      made.logits.push_back(mixed);
    }
  for (std::int64_t j = 0; j + 1 < c.k; ++j)
    for (std::int64_t r = 0; r < kRows; ++r) {
      const Softmax q(c, j, r), p(c, c.k - 1, r);
      double kl = 0;
      for (std::size_t i = 0; i < p.p.size(); ++i) {
        kl += p.p[i] * std::log(p.p[i] / q.p[i]);
        made.logits.push_back(kWeight / c.temperature * (q.p[i] - p.p[i]));
      }
      made.divergences.push_back(kl);
    }
  const auto last = c.layers.end() - kRows * kVocab;
  made.logits.insert(made.logits.end(), last, c.layers.end());
  return made;
}

std::vector<float> column(const Numbers& numbers, int which) {
  std::vector<float> taken;
  for (std::size_t at = 0; at < numbers.results.size(); at += kLossResults)
    taken.push_back(numbers.results[at + static_cast<std::size_t>(which)]);
  return taken;
}

// Sums of kVocab terms, each of a few roundings, of numbers below this.
double bound(const Case& c) {
  double largest = 1;
  for (const double value : c.layers) largest = std::max(largest, std::fabs(value));
  for (const double value : c.weights) largest = std::max(largest, std::fabs(value));
  return (std::sqrt(static_cast<double>(kVocab)) + 8) * 0x1p-24 * largest * largest;
}

std::vector<Case> cases() {
  return {{2, 1.0f}, {3, 1.0f}, {3, 2.5f}, {6, 0.5f}};
}

TEST(Vote, IsTheDefinition) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(str(c.k, " layers at temperature ", c.temperature));
    const Definition expected = define(c);
    const Numbers got = in_one_pass(c, true);
    EXPECT_LT(test::largest_difference(got.logits, expected.logits), bound(c));
    EXPECT_LT(test::largest_difference(column(got, kDivergence), expected.divergences), bound(c));
    const std::vector<float> objectives = column(got, kObjective);
    for (std::size_t i = 0; i < objectives.size(); ++i)
      EXPECT_NEAR(objectives[i], kWeight * expected.divergences[i], bound(c)) << i;
  }
}

TEST(Vote, AgreesWithThePassesOfASpreadVocabulary) {
  for (const Case& c : cases())
    for (const bool gradient : {false, true}) {
      SCOPED_TRACE(str(c.k, " layers at temperature ", c.temperature, ", gradient ", gradient));
      const Numbers whole = in_one_pass(c, gradient), staged = in_stages(c, gradient);
      const Doubles logits(staged.logits.begin(), staged.logits.end());
      const Doubles results(staged.results.begin(), staged.results.end());
      EXPECT_LT(test::largest_difference(whole.logits, logits), bound(c));
      EXPECT_LT(test::largest_difference(whole.results, results), bound(c));
    }
}

TEST(Vote, LeavesLogitsWithoutAGradient) {
  const Case c{.k = 3, .temperature = 1};
  const Numbers got = in_one_pass(c, false);
  const std::vector<float> layers(got.logits.begin() + kRows * kVocab, got.logits.end());
  EXPECT_EQ(layers, test::narrow(c.layers));
}

}  // namespace
}  // namespace fathom::kernels
