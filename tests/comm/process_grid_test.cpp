#include "comm/process_grid.h"

#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "core/error.h"
#include "mpi_main.h"

namespace fathom::comm {
namespace {

constexpr std::size_t kDeviceBytes = std::size_t{1} << 20;

std::vector<GridShape> shapes_of(int ranks) {
  std::vector<GridShape> shapes;
  for (int dp = 1; dp <= ranks; ++dp)
    for (int pp = 1; dp * pp <= ranks; ++pp)
      if (ranks % (dp * pp) == 0) shapes.push_back({dp, pp, ranks / (dp * pp)});
  return shapes;
}

/// The world ranks of a group, in the group's order.
std::vector<int> members(Communicator& group, int world_rank) {
  std::vector<int> ranks(static_cast<std::size_t>(group.size()));
  group.all_gather(&world_rank, sizeof world_rank, ranks.data());
  return ranks;
}

TEST(GridShape, CoordinatesAndRanksAreInverse) {
  for (int ranks = 1; ranks <= 24; ++ranks) {
    for (const auto& shape : shapes_of(ranks)) {
      for (int rank = 0; rank < ranks; ++rank) {
        const auto place = coordinates_of(shape, rank);
        ASSERT_TRUE(place.dp < shape.dp && place.pp < shape.pp && place.tp < shape.tp);
        ASSERT_EQ(rank_of(shape, place), rank);
      }
    }
  }
  EXPECT_EQ(coordinates_of({2, 3, 4}, 1), (GridCoordinates{0, 0, 1}));
  EXPECT_EQ(coordinates_of({2, 3, 4}, 4), (GridCoordinates{0, 1, 0}));
  EXPECT_EQ(coordinates_of({2, 3, 4}, 12), (GridCoordinates{1, 0, 0}));
}

void expect_config_error(const std::function<void()>& action, const std::string& part) {
  try {
    action();
    FAIL() << "no error where \"" << part << "\" was expected";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(GridShape, ImpossibleShapesNameTheKey) {
  expect_config_error([] { validate({0, 1, 1}); }, "grid.dp is 0");
  expect_config_error([] { validate({1, -2, 1}); }, "grid.pp is -2");
  expect_config_error([] { validate({1, 1, 0}); }, "grid.tp is 0");
  expect_config_error([] { validate({1 << 20, 1 << 20, 1 << 20}); }, "more than");
}

TEST(GridShape, KvHeadsAreDividedOrReplicated) {
  EXPECT_EQ(place_kv_heads(2, 8).heads_per_rank, 4);
  EXPECT_EQ(place_kv_heads(2, 8).replicas, 1);
  EXPECT_EQ(place_kv_heads(8, 2).heads_per_rank, 1);
  EXPECT_EQ(place_kv_heads(8, 2).replicas, 4);
  expect_config_error([] { place_kv_heads(4, 3); }, "grid.tp is 4");
  expect_config_error([] { place_kv_heads(2, 3); }, "3 key-value heads");
}

TEST(ProcessGrid, GroupsOfEveryShapeHoldTheRightRanks) {
  auto& world = test::world();
  const auto device = test::make_device(kDeviceBytes);
  for (const auto& shape : shapes_of(world.size())) {
    SCOPED_TRACE(to_string(shape));
    ProcessGrid grid(world, shape, *device);
    const auto place = grid.place();
    EXPECT_EQ(rank_of(shape, place), world.rank());

    std::vector<int> tp, pp, dp;
    for (int i = 0; i < shape.tp; ++i) tp.push_back(rank_of(shape, {place.dp, place.pp, i}));
    for (int i = 0; i < shape.pp; ++i) pp.push_back(rank_of(shape, {place.dp, i, place.tp}));
    for (int i = 0; i < shape.dp; ++i) dp.push_back(rank_of(shape, {i, place.pp, place.tp}));
    EXPECT_EQ(members(grid.tp(), world.rank()), tp);
    EXPECT_EQ(members(grid.pp(), world.rank()), pp);
    EXPECT_EQ(members(grid.dp(), world.rank()), dp);

    const bool at_an_end = shape.pp > 1 && (place.pp == 0 || place.pp == shape.pp - 1);
    ASSERT_EQ(grid.first_last() != nullptr, at_an_end);
    if (at_an_end) {
      EXPECT_EQ(members(*grid.first_last(), world.rank()), (std::vector{pp.front(), pp.back()}));
    }
  }
}

TEST(ProcessGrid, KvReplicasAreConsecutiveTensorRanks) {
  auto& world = test::world();
  const auto device = test::make_device(kDeviceBytes);
  ProcessGrid grid(world, {1, 1, world.size()}, *device);
  const auto all = grid.make_kv_replica_group(1);
  EXPECT_EQ(all->size(), world.size());
  const auto alone = grid.make_kv_replica_group(world.size());
  EXPECT_EQ(alone->size(), 1);
  if (world.size() == 4) {
    const auto pair = grid.make_kv_replica_group(2);
    const int first = world.rank() / 2 * 2;
    EXPECT_EQ(members(*pair, world.rank()), (std::vector{first, first + 1}));
  }
}

TEST(ProcessGrid, AWrongRankCountIsRefusedOnEveryRank) {
  auto& world = test::world();
  const auto device = test::make_device(kDeviceBytes);
  expect_config_error(
      [&] {
        ProcessGrid(world, {world.size() + 1, 1, 1}, *device);
      },
      "are running");
}

}  // namespace
}  // namespace fathom::comm
