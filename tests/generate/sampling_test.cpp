#include "generate/sampling.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "../support/expect_error.h"

namespace fathom::generate {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// How often each id is chosen over evenly spaced u: its probability.
std::map<std::int32_t, double> shares(const std::vector<float>& logits, const Sampling& sampling) {
  constexpr int kDraws = 20000;
  std::map<std::int32_t, double> result;
  for (int i = 0; i < kDraws; ++i)
    result[choose(logits, sampling, (i + 0.5) / kDraws)] += 1.0 / kDraws;
  return result;
}

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> result;
  for (const double p : probabilities) result.push_back(static_cast<float>(std::log(p)));
  return result;
}

TEST(Sampling, GreedyTakesTheLowestOfEquals) {
  EXPECT_EQ(choose(std::vector<float>{1, 3, 2, 3}, {}, 0.9), 1);
  EXPECT_EQ(choose(std::vector<float>{kNever, -5, kNever}, {}, 0.0), 1);
}

TEST(Sampling, TemperatureOneDrawsInProportion) {
  const std::vector<double> p = {0.1, 0.2, 0.4, 0.3};
  const auto share = shares(logs(p), {.temperature = 1});
  for (std::size_t i = 0; i < p.size(); ++i)
    EXPECT_NEAR(share.at(static_cast<std::int32_t>(i)), p[i], 2e-4) << i;
}

TEST(Sampling, TemperatureSharpens) {
  // p^(1/T) at T = 1/2 is p^2: 1, 4, 16, 9 parts of 30.
  const auto share = shares(logs({0.1, 0.2, 0.4, 0.3}), {.temperature = 0.5});
  EXPECT_NEAR(share.at(0), 1.0 / 30, 2e-4);
  EXPECT_NEAR(share.at(2), 16.0 / 30, 2e-4);
}

TEST(Sampling, TopKKeepsTheKLargestLowerIdsFirst) {
  const auto share = shares(logs({0.2, 0.3, 0.2, 0.2, 0.1}), {.temperature = 1, .top_k = 2});
  ASSERT_EQ(share.size(), 2u);
  EXPECT_NEAR(share.at(1), 0.6, 2e-4);
  EXPECT_NEAR(share.at(0), 0.4, 2e-4);
}

TEST(Sampling, TopPKeepsTheFewestThatReachP) {
  const auto share = shares(logs({0.05, 0.5, 0.15, 0.3}), {.temperature = 1, .top_p = 0.75});
  ASSERT_EQ(share.size(), 2u);
  EXPECT_NEAR(share.at(1), 0.5 / 0.8, 2e-4);
  EXPECT_NEAR(share.at(3), 0.3 / 0.8, 2e-4);
}

TEST(Sampling, TopPCountsWhatTopKLeft) {
  // Of {0.5, 0.3}, 0.5 alone is 0.625 of the whole.
  const auto share =
      shares(logs({0.05, 0.5, 0.15, 0.3}), {.temperature = 1, .top_k = 2, .top_p = 0.6});
  EXPECT_EQ(share.size(), 1u);
  EXPECT_EQ(share.count(1), 1u);
}

TEST(Sampling, TopPOfAFlatDistributionSortsAsFarAsNeeded) {
  std::vector<float> flat(1000, 0.25f);
  const auto share = shares(flat, {.temperature = 1, .top_p = 0.5});
  EXPECT_EQ(share.size(), 500u);
  EXPECT_EQ(share.rbegin()->first, 499);  // equals go by id
}

TEST(Sampling, NeverChoosesWhatIsBanned) {
  const std::vector<float> logits = {kNever, 0, kNever, 0, kNever};
  for (const double u : {0.0, 0.25, 0.5, 0.75, std::nextafter(1.0, 0.0)}) {
    const std::int32_t id = choose(logits, {.temperature = 1}, u);
    EXPECT_TRUE(id == 1 || id == 3) << u << " gives " << id;
  }
}

TEST(Sampling, ExtremeLogitsStayFinite) {
  EXPECT_EQ(choose(std::vector<float>{-3e38f, 3e38f}, {.temperature = 1}, 0.999), 1);
  EXPECT_EQ(choose(std::vector<float>{0, 1}, {.temperature = 1e-6}, 0.001), 1);
}

TEST(Sampling, UniformIsAFunctionOfSeedSampleAndPosition) {
  std::set<double> seen;
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (std::uint64_t sample = 0; sample < 10; ++sample)
      for (int position = 0; position < 10; ++position) {
        const double u = uniform(seed, sample, position);
        EXPECT_EQ(u, uniform(seed, sample, position));
        EXPECT_GE(u, 0);
        EXPECT_LT(u, 1);
        seen.insert(u);
        sum += u;
      }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_NEAR(sum / 1000, 0.5, 0.05);
  EXPECT_NE(uniform(1, std::uint64_t{1} << 32, 0), uniform(1, 0, 0));
}

TEST(Sampling, BansWhatWouldRepeatARun) {
  // "7 8" was followed by 1 and by 2.
  const std::vector<std::int32_t> ids = {7, 8, 1, 7, 8, 2, 7, 8};
  std::vector<float> logits(10, 1.0f);
  ban_repeats(ids, 3, logits);
  for (int id = 0; id < 10; ++id)
    EXPECT_EQ(logits[static_cast<std::size_t>(id)], id == 1 || id == 2 ? kNever : 1.0f) << id;
}

TEST(Sampling, RunsOfOneBanEveryIdSeen) {
  std::vector<float> logits(4, 1.0f);
  ban_repeats(std::vector<std::int32_t>{2, 2, 0}, 1, logits);
  EXPECT_EQ(logits, (std::vector<float>{kNever, 1, kNever, 1}));
}

TEST(Sampling, BansNothingWhereNothingWouldBeLeft) {
  std::vector<float> logits = {1, 2, 3};
  ban_repeats(std::vector<std::int32_t>{0, 1, 2, 1}, 1, logits);
  EXPECT_EQ(logits, (std::vector<float>{1, 2, 3}));
  ban_repeats(std::vector<std::int32_t>{0, 1}, 3, logits);  // shorter than a run
  EXPECT_EQ(logits, (std::vector<float>{1, 2, 3}));
}

TEST(Sampling, RefusesValuesOutOfRange) {
  using fathom::testing::expect_error;
  expect_error(
      ErrorKind::config, [] { validate({.temperature = -1}); }, "temperature", "-1");
  expect_error(
      ErrorKind::config, [] { validate({.temperature = NAN}); }, "temperature");
  expect_error(
      ErrorKind::config, [] { validate({.top_k = -2}); }, "top_k", "-2");
  expect_error(
      ErrorKind::config, [] { validate({.top_p = 0}); }, "top_p");
  expect_error(
      ErrorKind::config, [] { validate({.no_repeat_ngram = -1}); }, "no_repeat_ngram");
}

}  // namespace
}  // namespace fathom::generate
