#include "core/memory_usage.h"

#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/timer.h"

namespace fathom {
namespace {

TEST(MemoryUsage, FollowsWhatIsTouchedAndRemembersThePeak) {
  constexpr std::int64_t size = 64 << 20;
  const MemoryUsage before = memory_usage();
  {
    const std::vector<char> block(size, 1);
    EXPECT_GE(memory_usage().resident, before.resident + size * 9 / 10);
  }
  const MemoryUsage after = memory_usage();
  EXPECT_LT(after.resident, before.resident + size / 2);
  EXPECT_GE(after.peak, before.resident + size * 9 / 10);
}

TEST(MemoryUsage, SomeOfTheMachinesMemoryIsAvailable) {
  const std::int64_t machine = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
  EXPECT_GT(available_memory(), machine / 1000);
  EXPECT_LE(available_memory(), machine);
}

TEST(Timer, CountsAndRestarts) {
  Timer timer;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(timer.restart(), 0.02);
  EXPECT_LT(timer.seconds(), 0.02);
}

}  // namespace
}  // namespace fathom
