#include "kernels/best_logit.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "tests/support/test_device.h"

namespace fathom::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class BestLogits : public ::testing::Test {
 protected:
  // The best of the middle columns of a wider matrix, so that strides are seen.
  std::vector<float> best(std::int64_t rows, const std::vector<float>& logits) {
    const auto columns = static_cast<std::int64_t>(logits.size()) / rows;
    std::vector<float> wide;
    for (std::int64_t r = 0; r < rows; ++r) {
      wide.push_back(1000);
      wide.insert(wide.end(), logits.begin() + r * columns, logits.begin() + (r + 1) * columns);
      wide.push_back(NAN);
    }
    const Tensor all =
        Tensor::from_host(*device_, {rows, columns + 2}, std::span<const float>(wide));
    const Tensor result = Tensor::empty(*device_, {rows, kBestLogits});
    best_logits(all.slice_columns(1, columns), result);
    return to_host(result);
  }

  std::unique_ptr<Device> device_ = test::make_test_device(std::size_t{64} << 20);
};

TEST_F(BestLogits, OfEachRow) {
  const auto result = best(2, {1, 3, 2, -1, -2, -1});
  EXPECT_EQ(result[kLargest], 3);
  EXPECT_EQ(result[kLargestIndex], 1);
  EXPECT_NEAR(result[kExpSum], 1 + std::exp(-1) + std::exp(-2), 1e-6);
  EXPECT_EQ(result[kBestLogits + kLargest], -1);
  EXPECT_EQ(result[kBestLogits + kLargestIndex], 0);
  EXPECT_NEAR(result[kBestLogits + kExpSum], 2 + std::exp(-1), 1e-6);
}

TEST_F(BestLogits, LowestOfEqualsInALargeVocabulary) {
  std::vector<float> logits(150000, -20.0f);
  logits[77777] = logits[77778] = logits[149999] = 5;
  const auto result = best(1, logits);
  EXPECT_EQ(result[kLargestIndex], 77777);
  EXPECT_NEAR(result[kExpSum], 3 + 149997 * std::exp(-25.0), 1e-5);
}

TEST_F(BestLogits, NegativeInfinityNeverCounts) {
  const auto some = best(1, {-kInfinity, -1e30f, -kInfinity});
  EXPECT_EQ(some[kLargestIndex], 1);
  EXPECT_EQ(some[kExpSum], 1);
  EXPECT_EQ(best(1, {-kInfinity, -kInfinity})[kExpSum], 0);
  EXPECT_EQ(best(1, {})[kExpSum], 0);
}

TEST_F(BestLogits, NanAndInfinityShowInTheSum) {
  EXPECT_TRUE(std::isnan(best(1, {1, NAN, 2})[kExpSum]));
  EXPECT_TRUE(std::isnan(best(1, {NAN, NAN})[kExpSum]));
  EXPECT_TRUE(std::isnan(best(1, {1, kInfinity, 2})[kExpSum]));
}

}  // namespace
}  // namespace fathom::kernels
