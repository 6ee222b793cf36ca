#include "checkpoints/rectangle.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace fathom::checkpoints {
namespace {

/// Element by element, the definition that for_each_run must match.
std::vector<std::int64_t> flat_indices(const Rectangle& box, const Rectangle& part) {
  std::vector<std::int64_t> found;
  const std::int64_t n = element_count(part);
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t rest = i, index = 0, stride = 1;
    for (std::size_t d = box.extent.size(); d-- > 0;) {
      index += (part.offset[d] + rest % part.extent[d] - box.offset[d]) * stride;
      rest /= part.extent[d];
      stride *= box.extent[d];
    }
    found.push_back(index);
  }
  return found;
}

TEST(Rectangle, RunsVisitEveryElementOfThePartInOrder) {
  std::mt19937 random(1);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const auto dims = static_cast<std::size_t>(draw(0, 4));
    Rectangle box, part;
    for (std::size_t d = 0; d < dims; ++d) {
      box.offset.push_back(draw(0, 3));
      box.extent.push_back(draw(0, 5));
      part.offset.push_back(box.offset[d] + draw(0, static_cast<int>(box.extent[d])));
      const std::int64_t room = box.offset[d] + box.extent[d] - part.offset[d];
      part.extent.push_back(draw(0, 2) == 0 ? room : draw(0, static_cast<int>(room)));
    }
    std::vector<std::int64_t> visited;
    for_each_run(box, part, [&](auto from, auto to, auto length) {
      EXPECT_EQ(to, static_cast<std::int64_t>(visited.size()));
      for (std::int64_t i = 0; i < length; ++i) visited.push_back(from + i);
    });
    ASSERT_EQ(visited, flat_indices(box, part)) << to_string(part) << " of " << to_string(box);
  }
}

TEST(Rectangle, WholeIsOneRun) {
  int runs = 0;
  for_each_run(whole({3, 4, 5}), whole({3, 4, 5}), [&](auto, auto, auto length) {
    ++runs;
    EXPECT_EQ(length, 60);
  });
  EXPECT_EQ(runs, 1);
}

TEST(Rectangle, TilingFaults) {
  const Rectangle left{{0, 0}, {4, 2}}, right{{0, 2}, {4, 3}}, top{{0, 0}, {1, 5}};
  EXPECT_EQ(tiling_fault({4, 5}, {left, right}), "");
  EXPECT_EQ(tiling_fault({4, 5}, {left}), "its pieces cover 8 of 20 elements");
  EXPECT_EQ(tiling_fault({4, 5}, {left, right, left}),
            "piece [4, 2] at [0, 0] overlaps piece [4, 2] at [0, 0]");
  EXPECT_EQ(tiling_fault({4, 5}, {top, right}),
            "piece [4, 3] at [0, 2] overlaps piece [1, 5] at [0, 0]");
  EXPECT_EQ(tiling_fault({4, 4}, {left, right}),
            "piece [4, 3] at [0, 2] does not lie within [4, 4]");
  EXPECT_EQ(tiling_fault({4}, {left}), "piece [4, 2] at [0, 0] does not lie within [4]");
  EXPECT_EQ(tiling_fault({}, {Rectangle{}}), "") << "a scalar";
  EXPECT_EQ(tiling_fault({}, {Rectangle{}, Rectangle{}}), "piece [] at [] overlaps piece [] at []");
  EXPECT_EQ(tiling_fault({0, 3}, {}), "") << "nothing to cover";
}

}  // namespace
}  // namespace fathom::checkpoints
