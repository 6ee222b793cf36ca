#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoints/checkpoint_writer.h"
#include "checkpoints/run_lock.h"
#include "tests/checkpoints/sample_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace fathom::checkpoints {
namespace {

using testing::expect_error;
using testing::TemporaryDirectory;

/// Saves step 2 over an existing step 1 in a child process that kills itself at `stage`.
/// Returns the child's wait status.
int save_in_child(const std::filesystem::path& folder, std::string_view stage) {
  const pid_t child = fork();
  if (child == 0) {
    const auto world = comm::self_communicator();
    CheckpointWriter writer(folder, {.last = 1}, [&](std::string_view reached) {
      if (reached == stage) std::raise(SIGKILL);
    });
    writer.begin(*world, sample::run_info(2), sample::snapshot(0, 1, 2));
    writer.finish(*world);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

void save(const std::filesystem::path& folder, std::int64_t step) {
  const auto world = comm::self_communicator();
  CheckpointWriter writer(folder, {});
  writer.begin(*world, sample::run_info(step),
               sample::snapshot(0, 1, static_cast<std::uint32_t>(step)));
  writer.finish(*world);
}

std::int64_t newest(const std::filesystem::path& folder) {
  auto reader = CheckpointReader::open_latest(*comm::self_communicator(), folder, {.verify = true});
  const std::int64_t step = reader->manifest().run.step;
  EXPECT_EQ(sample::count_wrong(*reader, 0, 1, static_cast<std::uint32_t>(step)), 0);
  return step;
}

TEST(InterruptedSave, KilledAtAnyPointTheNewestSoundCheckpointIsUsed) {
  const std::vector<std::pair<std::string, std::int64_t>> stages = {{"shard created", 1},
                                                                    {"shard half written", 1},
                                                                    {"shard written", 1},
                                                                    {"all shards written", 1},
                                                                    {"manifest written", 1},
                                                                    {"published", 2},
                                                                    {"latest written", 2},
                                                                    {"pruning", 2},
                                                                    {"pruned renamed", 2},
                                                                    {"pruned half", 2},
                                                                    {"pruned", 2}};
  for (const auto& [stage, expected] : stages) {
    const TemporaryDirectory folder;
    save(folder.path(), 1);
    const int status = save_in_child(folder.path(), stage);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << stage << " was not reached";
    EXPECT_EQ(newest(folder.path()), expected) << "killed at: " << stage;

    const auto removed = remove_leftovers(folder.path()).removed;
    EXPECT_EQ(removed.size(), expected == 1 || stage.starts_with("pruned ") ? 1u : 0u) << stage;
    save(folder.path(), 3);
    EXPECT_EQ(newest(folder.path()), 3) << "the run goes on after: " << stage;
  }
}

// Where two names cannot be swapped, a checkpoint that is saved again is moved aside first.
TEST(InterruptedSave, ACheckpointThatWasMovedAsideComesBack) {
  const TemporaryDirectory folder;
  save(folder.path(), 1);
  save(folder.path(), 2);
  const auto aside = folder / "step_00000002.replaced.tmp";
  std::filesystem::rename(folder / "step_00000002", aside);
  std::filesystem::create_directory(folder / "step_00000002.tmp");
  Leftovers done = remove_leftovers(folder.path());
  EXPECT_EQ(done.removed, (std::vector<std::string>{"step_00000002.tmp"}));
  EXPECT_EQ(done.restored, (std::vector<std::string>{"step_00000002"}));
  EXPECT_EQ(newest(folder.path()), 2);

  // Once the new one is there, the old one goes.
  std::filesystem::copy(folder / "step_00000001", aside);
  done = remove_leftovers(folder.path());
  EXPECT_EQ(done.removed, (std::vector<std::string>{aside.filename()}));
  EXPECT_TRUE(done.restored.empty());
  EXPECT_EQ(newest(folder.path()), 2);
}

/// Saves one step after the other, telling each through the pipe when it is committed, until it is
/// killed.
[[noreturn]] void save_for_ever(const std::filesystem::path& folder, std::int64_t step, int told) {
  const auto world = comm::self_communicator();
  CheckpointWriter writer(folder, {.last = 2});
  for (;; ++step) {
    writer.begin(*world, sample::run_info(step),
                 sample::snapshot(0, 1, static_cast<std::uint32_t>(step)));
    writer.finish(*world);
    if (write(told, &step, sizeof step) != sizeof step) _exit(1);
  }
}

// FATHOM_RANDOM_KILLS asks for more of them.
TEST(InterruptedSave, RandomKillsCostNoCommittedCheckpoint) {
  const char* wanted = std::getenv("FATHOM_RANDOM_KILLS");
  const int kills = wanted ? std::atoi(wanted) : 100;
  std::mt19937 random(5);
  std::uniform_int_distribution<int> microseconds(0, 30000);
  const TemporaryDirectory folder;
  save(folder.path(), 1);
  std::int64_t committed = 1;
  for (int i = 0; i < kills; ++i) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) save_for_ever(folder.path(), committed + 1, ends[1]);
    ::close(ends[1]);
    usleep(static_cast<useconds_t>(microseconds(random)));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    std::int64_t told = committed;
    for (std::int64_t step; read(ends[0], &step, sizeof step) == sizeof step;) told = step;
    ::close(ends[0]);
    committed = newest(folder.path());
    // Killed between the commit and its telling, it is one ahead.
    EXPECT_TRUE(committed == told || committed == told + 1) << committed << " after " << told;
    remove_leftovers(folder.path());
  }
  EXPECT_GT(committed, 1) << "not one save was left alone";
  // Old ones that a kill saved from pruning go with the next save.
  const auto world = comm::self_communicator();
  CheckpointWriter writer(folder.path(), {.last = 2});
  writer.begin(*world, sample::run_info(committed + 1), sample::snapshot(0, 1));
  writer.finish(*world);
  EXPECT_EQ(committed_steps(folder.path()), (std::vector{committed, committed + 1}));
}

/// A limit on file sizes stands in for a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = before_;
    small.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(InterruptedSave, FullDiskLeavesThePreviousCheckpointAndAllowsAnotherTry) {
  const TemporaryDirectory folder;
  save(folder.path(), 1);
  for (const rlim_t limit : {0, 100, 1000, 3000, 5000, 9000, 12000}) {
    const FileSizeLimit full(limit);
    expect_error(
        ErrorKind::io, [&] { save(folder.path(), 2); }, "step 2 was not saved", "rank 0",
        "rank_00000.h5", "File too large", "earlier checkpoints are untouched");
    EXPECT_FALSE(std::filesystem::exists(folder / "step_00000002.tmp"));
  }
  EXPECT_EQ(newest(folder.path()), 1);
  save(folder.path(), 2);
  EXPECT_EQ(newest(folder.path()), 2);
}

TEST(InterruptedSave, ForeignLocksOnShardsDoNotMatter) {
  const TemporaryDirectory folder;
  save(folder.path(), 1);
  const auto shard = folder.path() / step_name(1) / shard_name(0);
  const int holder = ::open(shard.c_str(), O_RDWR);
  ASSERT_EQ(flock(holder, LOCK_EX), 0);
  EXPECT_EQ(newest(folder.path()), 1);
  ::close(holder);
}

TEST(RunLock, SecondWriterIsRefusedByNameAndADeadOneIsReported) {
  const TemporaryDirectory folder;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(folder / "run");
    if (write(pipe_ends[1], "x", 1) != 1) _exit(1);
    pause();
  }
  char ready = 0;
  ASSERT_EQ(read(pipe_ends[0], &ready, 1), 1);
  expect_error(
      ErrorKind::io, [&] { RunLock second(folder / "run"); }, "in use by another run",
      "host=", "pid=" + std::to_string(child), "since=");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  {
    const RunLock lock(folder / "run");
    EXPECT_NE(lock.previous().find("pid=" + std::to_string(child)), std::string::npos);
    expect_error(
        ErrorKind::io, [&] { RunLock second(folder / "run"); }, "in use");
  }
  EXPECT_EQ(RunLock(folder / "run").previous(), "") << "given back in good order";
}

}  // namespace
}  // namespace fathom::checkpoints
