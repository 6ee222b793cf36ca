#include "comm/watched_communicator.h"

#include <gtest/gtest.h>
#include <numeric>

#include "../mpi_main.h"

namespace fathom::comm {
namespace {

/// A watched group does what the group does, and so do the groups split off it.
TEST(WatchedCommunicator, GivesTheResultsOfTheGroup) {
  Communicator& plain = test::world();
  Watchdog watchdog({}, std::chrono::minutes(5), [] {});
  const auto world = watch(plain, watchdog);
  const int rank = plain.rank(), size = plain.size();
  ASSERT_EQ(world->rank(), rank);
  ASSERT_EQ(world->size(), size);
  world->barrier();

  double sum = rank + 1;
  world->all_reduce(&sum, 1, ReduceOp::sum);
  EXPECT_EQ(sum, size * (size + 1) / 2);
  std::vector<float> values(1000, static_cast<float>(rank));
  world->start_all_reduce(values.data(), values.size(), ReduceOp::max).wait();
  EXPECT_EQ(values[999], static_cast<float>(size - 1));

  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  int received = -1;
  Request receive = world->start_recv(&received, sizeof received, previous, 3);
  Request send = world->start_send(&rank, sizeof rank, next, 3);
  send.wait();
  while (!receive.test()) {
  }
  EXPECT_EQ(received, previous);

  EXPECT_EQ(world->broadcast_text(rank == 0 ? "root's" : "", 0), "root's");
  std::vector<int> all(static_cast<std::size_t>(size));
  world->all_gather(&rank, sizeof rank, all.data());
  std::vector<int> expected(all.size());
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);

  const std::vector<float> parts(static_cast<std::size_t>(size), 1.0f);
  float part = 0;
  world->reduce_scatter(parts.data(), &part, 1);
  EXPECT_EQ(part, static_cast<float>(size));

  const auto half = world->split(rank % 2, -rank);
  std::int64_t highest = rank;
  half->all_reduce(&highest, 1, ReduceOp::max);
  EXPECT_EQ(highest % 2, rank % 2);
  EXPECT_EQ(half->rank(), (highest - rank) / 2);
  EXPECT_EQ(world->split(-1, 0), nullptr);
}

}  // namespace
}  // namespace fathom::comm
