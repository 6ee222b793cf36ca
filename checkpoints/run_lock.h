#pragma once

#include <filesystem>
#include <string>

namespace fathom::checkpoints {

/// The right to write in a run's folder, held by rank 0 of one job at a time: the file LOCK, locked
/// with flock, saying who holds it. The kernel drops the lock when its process ends, however it
/// ends. Where the file system has no locks, the text alone decides: a holder of this host that is
/// no longer alive is replaced, and for one of another host the user is told to remove the file.
class RunLock {
 public:
  /// Makes the folder if needed. Throws Error(io) naming host, process and start time of the holder
  /// if there is one.
  explicit RunLock(const std::filesystem::path& run_folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Who held the lock and ended without giving it back; empty if nobody did. Worth a line in the
  /// log.
  const std::string& previous() const { return previous_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::string previous_;
};

}  // namespace fathom::checkpoints
