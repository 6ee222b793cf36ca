#include "kernels/embedding.h"

#include <gtest/gtest.h>

#include "random_values.h"
#include "tests/support/test_device.h"

namespace fathom::test {
namespace {

// Rows [first_id, first_id + rows) of a table, as a rank of a vocabulary-parallel group has them.
struct Shard {
  std::int64_t first_id, rows, columns;
};

void expect_gradient(const Shard& shard, const std::vector<std::int32_t>& ids) {
  const auto device = make_test_device(std::size_t{64} << 20);
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const auto dout = random_values(tokens * shard.columns, 1);
  std::vector<double> expected = random_values(shard.rows * shard.columns, 2);
  const Tensor table = Tensor::from_host(*device, {shard.rows, shard.columns}, narrow(expected));
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t row = ids[static_cast<std::size_t>(t)] - shard.first_id;
    if (row < 0 || row >= shard.rows) continue;
    for (std::int64_t c = 0; c < shard.columns; ++c)
      expected[static_cast<std::size_t>(row * shard.columns + c)] +=
          dout[static_cast<std::size_t>(t * shard.columns + c)];
  }
  kernels::embedding_backward(
      Tensor::from_host(*device, {tokens, shard.columns}, narrow(dout)), shard.first_id,
      Tensor::from_host(*device, {tokens}, std::span<const std::int32_t>(ids)), table);
  // n additions to a partial sum of at most a few times sqrt(n), rounded each: errors add up as
  // sqrt(n).
  const double n = static_cast<double>(tokens) + 1;
  EXPECT_LT(largest_difference(to_host(table), expected), 4 * n * 6e-8);
}

TEST(Embedding, GradientSumsTheTokensOfEachRow) {
  std::vector<std::int32_t> ids;
  for (std::int32_t t = 0; t < 120; ++t) ids.push_back(t * 7 % 13);
  expect_gradient({0, 13, 300}, ids);
}

TEST(Embedding, GradientLeavesTokensOfOtherRanksOut) {
  expect_gradient({4, 3, 5}, {0, 4, 9, 6, 4, 3, 7, 100, 4, 5, 6});
}

TEST(Embedding, GradientOfOneTokenAndOfOneRepeated) {
  expect_gradient({0, 2, 257}, {1});
  expect_gradient({0, 2, 1}, std::vector<std::int32_t>(50, 1));
}

TEST(Embedding, GradientOfNoTokenOfThisRank) {
  expect_gradient({0, 2, 8}, {2, 3, -1});
}

}  // namespace
}  // namespace fathom::test
