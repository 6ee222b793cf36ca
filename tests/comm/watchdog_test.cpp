#include "comm/watchdog.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "core/error.h"
#include "tests/support/temporary_directory.h"

namespace fathom::comm {
namespace {

using namespace std::chrono_literals;

const Watchdog::Place kAlone = {};

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
  Watchdog watchdog(kAlone, 1s, [&] { aborted = true; });
  ::testing::internal::CaptureStderr();
  for (int step = 0; step < 25; ++step) {
    watchdog.note({.step = step, .name = "forward"});
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_FALSE(aborted);
}

TEST(Watchdog, SilenceIsReportedThenAborted) {
  const testing::TemporaryDirectory folder;
  std::atomic<bool> aborted = false;
  ::testing::internal::CaptureStderr();
  const auto start = std::chrono::steady_clock::now();
  Watchdog watchdog({.rank = 3, .ranks = 4, .host = "n1", .folder = folder.path()}, 200ms,
                    [&] { aborted = true; });
  Watchdog::Group& group = watchdog.add_group({1, 3});
  watchdog.note({.step = 7, .micro_batch = 2, .name = "recv_bundle"});
  const Watchdog::Call call(&watchdog, "receive", group, 0, 5);
  EXPECT_TRUE(soon([&] { return aborted.load(); }));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 200ms);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("waits in receive with rank 1 (tag 5); last action recv_bundle, step 7, "
                      "micro-batch 2"),
            std::string::npos)
      << text;
  // The three others have written nothing.
  EXPECT_NE(text.find("it waited for rank 0, 1, 2, which gave no report"), std::string::npos)
      << text;
  const auto reports = read_reports(folder.path());
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].peer, 1);
  EXPECT_EQ(reports[0].members, (std::vector{1, 3}));
}

TEST(Watchdog, ARankThatGoesOnTakesItsReportBack) {
  const testing::TemporaryDirectory folder;
  std::atomic<bool> aborted = false;
  ::testing::internal::CaptureStderr();
  {
    Watchdog::Place place;
    place.folder = folder.path();
    Watchdog watchdog(place, 2s, [&] { aborted = true; });
    EXPECT_TRUE(soon([&] { return read_reports(folder.path()).size() == 1; }));
    watchdog.note({.step = 1, .name = "forward"});
    EXPECT_TRUE(soon([&] { return read_reports(folder.path()).empty(); }));
  }
  EXPECT_FALSE(aborted);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("rank 0 goes on"), std::string::npos);
}

/// A network folder whose server is gone keeps whoever writes there for ever.
TEST(Watchdog, AFolderThatDoesNotAnswerDoesNotKeepTheJobFromEnding) {
  const testing::TemporaryDirectory folder;
  const std::string stuck = (folder / "rank_00000.json.tmp").string();
  ASSERT_EQ(mkfifo(stuck.c_str(), 0600), 0) << "a writer waits until somebody reads";
  std::atomic<bool> aborted = false;
  ::testing::internal::CaptureStderr();
  {
    Watchdog watchdog({.host = "n0", .folder = folder.path()}, 400ms, [&] { aborted = true; });
    EXPECT_TRUE(soon([&] { return aborted.load(); }));
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(folder.path().string() + " does not answer"), std::string::npos) << text;
  EXPECT_NE(text.find("made no progress in"), std::string::npos) << text;
  EXPECT_TRUE(read_reports(folder.path()).empty()) << "it could be written after all";

  // Let what was left behind end, before the folder goes.
  const int reader = ::open(stuck.c_str(), O_RDONLY);
  std::array<char, 4096> bytes;
  while (::read(reader, bytes.data(), bytes.size()) > 0) {
  }
  ::close(reader);
  EXPECT_TRUE(soon([&] { return std::filesystem::exists(folder / "closed"); }));
}

TEST(Watchdog, APhaseHasItsOwnLimit) {
  std::atomic<bool> aborted = false;
  ::testing::internal::CaptureStderr();
  Watchdog watchdog(kAlone, 50ms, [&] { aborted = true; });
  {
    const Watchdog::Phase evaluation(&watchdog, "evaluate", 60s);
    const Watchdog::Phase saving(&watchdog, "save", 30s);
    std::this_thread::sleep_for(400ms);
    EXPECT_FALSE(aborted);
  }
  EXPECT_TRUE(soon([&] { return aborted.load(); }));
  EXPECT_EQ(::testing::internal::GetCapturedStderr().find("while it"), std::string::npos);
}

TEST(Watchdog, TheReportNamesThePhase) {
  std::atomic<bool> aborted = false;
  ::testing::internal::CaptureStderr();
  Watchdog watchdog(kAlone, 60s, [&] { aborted = true; });
  const Watchdog::Phase saving(&watchdog, "save", 50ms);
  EXPECT_TRUE(soon([&] { return aborted.load(); }));
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("while it saves"), std::string::npos);
}

/// A process that has ended but was not yet waited for has no command line.
bool is_running(int pid) {
  std::string command;
  std::ifstream(str("/proc/", pid, "/cmdline")) >> command;
  return !command.empty();
}

struct Job {
  std::string text;
  int exit_code = -1;
  double seconds = 0;
};

/// stall_program on two ranks.
Job run_job(const std::string& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const std::string command =
      FATHOM_MPIEXEC " --allow-run-as-root --oversubscribe -np 2 " FATHOM_STALL_PROGRAM " " +
      arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  Job job;
  std::array<char, 256> line;
  while (fgets(line.data(), line.size(), pipe)) job.text += line.data();
  const int status = pclose(pipe);
  if (WIFEXITED(status)) job.exit_code = WEXITSTATUS(status);
  job.seconds = Watchdog::Seconds(std::chrono::steady_clock::now() - start).count();
  return job;
}

TEST(Watchdog, ARankThatDiesEndsTheJob) {
  const testing::TemporaryDirectory folder;
  const Job job = run_job(folder.path().string() + " vanish");
  EXPECT_GT(job.exit_code, 0) << job.text;
  EXPECT_LT(job.seconds, 15) << job.text;
}

/// Two ranks, one of which stops itself (SIGSTOP) in the middle of a run. The other one must report
/// the peer that it waits for and end the whole job, the stopped process included.
TEST(Watchdog, AStoppedRankEndsTheJob) {
  const testing::TemporaryDirectory folder;
  const Job job = run_job(folder.path().string());
  const std::string& text = job.text;
  EXPECT_EQ(job.exit_code, exit_code(ErrorKind::comm)) << text;
  EXPECT_LT(job.seconds, 15) << text;
  EXPECT_NE(text.find("waits in receive with rank 1 (tag 6); last action exchange, step 3"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("it waited for rank 1, which gave no report"), std::string::npos) << text;

  int stopped_pid = 0;
  const auto at = text.find("stopping pid ");
  ASSERT_NE(at, std::string::npos) << text;
  ASSERT_EQ(std::sscanf(text.c_str() + at, "stopping pid %d", &stopped_pid), 1);
  EXPECT_TRUE(soon([&] { return !is_running(stopped_pid); })) << "the stopped rank is still there";
}

}  // namespace
}  // namespace fathom::comm
