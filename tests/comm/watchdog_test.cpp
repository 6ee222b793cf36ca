#include "comm/watchdog.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <thread>

#include "core/error.h"

namespace fathom::comm {
namespace {

using namespace std::chrono_literals;

/// True when the condition holds within ten seconds; a loaded machine only makes it later.
template <typename Condition>
bool soon(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (!condition() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(5ms);
  }
  return condition();
}

TEST(Watchdog, ProgressKeepsItQuiet) {
  std::atomic<bool> aborted = false;
  Watchdog watchdog("rank 0", 1s, [&] { aborted = true; });
  testing::internal::CaptureStderr();
  for (int step = 0; step < 25; ++step) {
    watchdog.note({.step = step, .name = "forward"});
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_FALSE(aborted);
}

TEST(Watchdog, SilenceIsReportedThenAborted) {
  std::atomic<bool> aborted = false;
  testing::internal::CaptureStderr();
  const auto start = std::chrono::steady_clock::now();
  Watchdog watchdog("rank 3", 100ms, [&] { aborted = true; });
  watchdog.note({.step = 7, .micro_batch = 2, .name = "recv_bundle", .peer = 1, .tag = 5});
  EXPECT_TRUE(soon([&] { return aborted.load(); }));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 200ms);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("rank 3 has made no progress"), std::string::npos);
  EXPECT_NE(text.find("last action: recv_bundle, step 7, micro-batch 2, peer 1, tag 5"),
            std::string::npos)
      << text;
}

TEST(Watchdog, APhaseHasItsOwnLimit) {
  std::atomic<bool> aborted = false;
  testing::internal::CaptureStderr();
  Watchdog watchdog("rank 0", 50ms, [&] { aborted = true; });
  {
    const Watchdog::Phase evaluation(watchdog, "evaluate", 60s);
    const Watchdog::Phase saving(watchdog, "save", 30s);
    std::this_thread::sleep_for(400ms);
    EXPECT_FALSE(aborted);
  }
  EXPECT_TRUE(soon([&] { return aborted.load(); }));
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("phase"), std::string::npos);
}

TEST(Watchdog, TheReportNamesThePhase) {
  std::atomic<bool> aborted = false;
  testing::internal::CaptureStderr();
  Watchdog watchdog("rank 0", 60s, [&] { aborted = true; });
  const Watchdog::Phase saving(watchdog, "save", 50ms);
  EXPECT_TRUE(soon([&] { return aborted.load(); }));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("(phase save)"), std::string::npos);
}

/// A process that has ended but was not yet waited for has no command line.
bool is_running(int pid) {
  std::string command;
  std::ifstream(str("/proc/", pid, "/cmdline")) >> command;
  return !command.empty();
}

/// Two ranks, one of which stops itself (SIGSTOP) in the middle of a run. The other one must report
/// the peer that it waits for and end the whole job, the stopped process included.
TEST(Watchdog, AStoppedRankEndsTheJob) {
  const auto start = std::chrono::steady_clock::now();
  FILE* job = popen(FATHOM_MPIEXEC
                    " --allow-run-as-root --oversubscribe -np 2 " FATHOM_STALL_PROGRAM " 2>&1",
                    "r");
  ASSERT_NE(job, nullptr);
  std::string text;
  std::array<char, 256> line;
  while (fgets(line.data(), line.size(), job)) text += line.data();
  const int status = pclose(job);
  const double seconds = Watchdog::Seconds(std::chrono::steady_clock::now() - start).count();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), exit_code(ErrorKind::comm)) << text;
  EXPECT_LT(seconds, 15) << text;
  EXPECT_NE(text.find("rank 0 has made no progress"), std::string::npos) << text;
  EXPECT_NE(text.find("last action: recv, step 3, peer 1"), std::string::npos) << text;

  int stopped_pid = 0;
  const auto at = text.find("stopping pid ");
  ASSERT_NE(at, std::string::npos) << text;
  ASSERT_EQ(std::sscanf(text.c_str() + at, "stopping pid %d", &stopped_pid), 1);
  EXPECT_TRUE(soon([&] { return !is_running(stopped_pid); })) << "the stopped rank is still there";
}

}  // namespace
}  // namespace fathom::comm
