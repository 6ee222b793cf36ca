#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace fathom::data {
namespace {

std::vector<std::int64_t> take(const SampleOrder& order, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> records;
  for (std::int64_t p = begin; p < end; ++p) records.push_back(order.record(p));
  return records;
}

std::vector<std::int64_t> epoch_of(const SampleOrder& order, std::int64_t epoch) {
  return take(order, epoch * order.records(), (epoch + 1) * order.records());
}

TEST(Sampler, EveryEpochIsACompletePermutation) {
  for (std::int64_t n : {1, 2, 3, 4, 5, 7, 24, 25, 26, 97, 1000, 4097}) {
    const SampleOrder order(11, n);
    std::vector<std::int64_t> expected(static_cast<std::size_t>(n));
    std::iota(expected.begin(), expected.end(), 0);
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      auto records = epoch_of(order, epoch);
      std::sort(records.begin(), records.end());
      ASSERT_EQ(records, expected) << "n " << n << " epoch " << epoch;
    }
  }
}

TEST(Sampler, EpochsAndSeedsDiffer) {
  const SampleOrder order(1, 1000), other(2, 1000), high_bits(1ull << 32 | 1, 1000);
  EXPECT_NE(epoch_of(order, 0), epoch_of(order, 1));
  EXPECT_NE(epoch_of(order, 0), epoch_of(other, 0));
  EXPECT_NE(epoch_of(order, 0), epoch_of(high_bits, 0));
}

TEST(Sampler, ResumesMidEpochWithoutReapplyingTheOffset) {
  // 24 records in batches of 4, stopped after step 4: the later epochs must still see their heads.
  const SampleOrder before(5, 24);
  auto seen = take(before, 0, 16);
  const SampleOrder after(5, 24);
  const auto rest = take(after, 16, 72);
  seen.insert(seen.end(), rest.begin(), rest.end());
  EXPECT_EQ(seen, take(SampleOrder(5, 24), 0, 72));
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int64_t> part(seen.begin() + epoch * 24, seen.begin() + (epoch + 1) * 24);
    std::sort(part.begin(), part.end());
    for (std::int64_t i = 0; i < 24; ++i) ASSERT_EQ(part[static_cast<std::size_t>(i)], i);
  }
}

TEST(Sampler, UnshuffledIsInOrderAndEpochsAreCounted) {
  const SampleOrder order(1, 5, false);
  EXPECT_EQ(take(order, 3, 7), (std::vector<std::int64_t>{3, 4, 0, 1}));
  EXPECT_EQ(order.epoch(4), 0);
  EXPECT_EQ(order.epoch(5), 1);
}

TEST(Sampler, WorksFarOut) {
  const SampleOrder order(9, (std::int64_t{1} << 40) + 3);
  for (std::int64_t p : {std::int64_t{0}, std::int64_t{1} << 39, (std::int64_t{1} << 42) + 17}) {
    EXPECT_GE(order.record(p), 0);
    EXPECT_LT(order.record(p), order.records());
  }
}

TEST(Sampler, RefusesAnEmptySet) {
  try {
    SampleOrder order(1, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
  }
}

// All 24 orders of four records must occur about equally often.
TEST(Sampler, SmallSetsReachEveryOrder) {
  const SampleOrder order(3, 4);
  std::map<std::vector<std::int64_t>, int> counts;
  const int epochs = 24 * 200;
  for (int epoch = 0; epoch < epochs; ++epoch) ++counts[epoch_of(order, epoch)];
  ASSERT_EQ(counts.size(), 24u);
  double chi_square = 0;
  for (const auto& [key, count] : counts) chi_square += std::pow(count - 200.0, 2) / 200.0;
  EXPECT_LT(chi_square, 57.0);  // 23 degrees of freedom, p = 1e-4
}

// Where record 0 lands, how far records move, fixed points and neighbours: as in a random
// permutation.
TEST(Sampler, LargeSetsAreNotDegenerate) {
  const std::int64_t n = 10000;
  const SampleOrder order(17, n);
  double displacement = 0, fixed = 0, neighbours = 0, correlation = 0;
  const int epochs = 20;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto records = epoch_of(order, epoch);
    for (std::size_t i = 0; i < records.size(); ++i) {
      const auto position = static_cast<std::int64_t>(i);
      displacement += static_cast<double>(std::abs(records[i] - position));
      fixed += records[i] == position;
      if (i > 0) neighbours += records[i] == records[i - 1] + 1;
      correlation += (static_cast<double>(records[i]) - (n - 1) / 2.0) *
                     (static_cast<double>(position) - (n - 1) / 2.0);
    }
  }
  const double total = static_cast<double>(n) * epochs;
  EXPECT_NEAR(displacement / total, n / 3.0, n * 0.01);        // mean |i - p(i)| = n / 3
  EXPECT_NEAR(fixed / epochs, 1.0, 1.0);                       // Poisson(1), mean of 20
  EXPECT_NEAR(neighbours / epochs, 1.0, 1.0);                  // Poisson(1), mean of 20
  EXPECT_NEAR(correlation / total / (n * n / 12.0), 0, 0.01);  // sd 1 / sqrt(n * epochs)
}

TEST(Sampler, TheFirstRecordIsUniformOverSeeds) {
  std::vector<int> counts(50, 0);
  for (std::uint64_t seed = 0; seed < 10000; ++seed) {
    ++counts[static_cast<std::size_t>(SampleOrder(seed, 50).record(0))];
  }
  double chi_square = 0;
  for (int count : counts) chi_square += std::pow(count - 200.0, 2) / 200.0;
  EXPECT_LT(chi_square, 94.0);  // 49 degrees of freedom, p = 1e-4
}

// Golden values pin the order: a change here changes every resumed run.
TEST(Sampler, OrderIsPinned) {
  const SampleOrder order(42, 10);
  EXPECT_EQ(take(order, 0, 10), (std::vector<std::int64_t>{8, 9, 4, 3, 5, 6, 2, 0, 7, 1}));
  EXPECT_EQ(take(order, 10, 20), (std::vector<std::int64_t>{0, 7, 5, 3, 6, 8, 4, 1, 2, 9}));
}

}  // namespace
}  // namespace fathom::data
