#include "eval/token_metrics.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace fathom::eval {
namespace {

TEST(TokenMetrics, AddsUpToTheWhole) {
  TokenMetrics total;
  total += {6.0, 3, 1};
  total += {0.0, 0, 0};
  total += {2.0, 1, 1};
  EXPECT_DOUBLE_EQ(total.loss(), 2.0);
  EXPECT_DOUBLE_EQ(total.perplexity(), 7.38905609893065);
  EXPECT_DOUBLE_EQ(total.accuracy(), 0.5);
}

TEST(TokenMetrics, SurvivesPacking) {
  const TokenMetrics sums{1.25, std::int64_t{1} << 52, 17};
  const TokenMetrics back = TokenMetrics::unpack(sums.pack());
  EXPECT_EQ(back.sum_loss, sums.sum_loss);
  EXPECT_EQ(back.tokens, sums.tokens);
  EXPECT_EQ(back.correct, sums.correct);
}

TEST(TokenMetrics, RefusesAMeanOfNothing) {
  testing::expect_error(
      ErrorKind::data, [] { TokenMetrics{}.loss(); }, "no labelled token");
  testing::expect_error(
      ErrorKind::data, [] { TokenMetrics{}.accuracy(); }, "no labelled token");
}

}  // namespace
}  // namespace fathom::eval
