#pragma once

#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/run_folder.h"
#include "checkpoints/shard.h"
#include "comm/communicator.h"

namespace fathom::checkpoints {

/// A sentence for the log if the disk of a folder seems to have no room for so many bytes; empty
/// otherwise. Only a hint: quotas and file systems of several servers may refuse earlier, or
/// later; whether a save worked is known when every rank has written.
std::string space_hint(const std::filesystem::path& folder, std::uint64_t bytes);

/// A checkpoint that is on the disk.
struct SaveResult {
  std::int64_t step;
  std::filesystem::path folder;
  std::uint64_t bytes;                ///< of all shards
  double seconds;                     ///< from begin to commit
  std::vector<std::string> warnings;  ///< what went wrong after the commit: LATEST, pruning
};

/// Saves checkpoints of a run while it trains on. All ranks make the same calls in the same order:
///
///   writer.begin(world, info, snapshot);     // returns at once; a thread writes this rank's shard
///   ... train ...
///   if (auto saved = writer.try_finish(world)) log(*saved);   // once a step
///   ... writer.finish(world);                // before the next begin, and at the end
///
/// A save that fails on any rank fails on all of them with one Error(io) that names the ranks and
/// the reasons; its folder is removed, and earlier checkpoints are as they were. The writer can go
/// on. Rank 0 must hold the folder's RunLock.
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path run_folder, const KeepPolicy& keep,
                   SaveObserver observer = {});
  /// Waits for this rank's thread; an unfinished save stays uncommitted.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Collective; blocks for one broadcast. The snapshot's memory must not change until the save
  /// ends. `info` matters on rank 0. Throws Error(io) on all ranks if the folder cannot be made.
  /// Returns space_hint() on rank 0, and nothing elsewhere.
  std::string begin(comm::Communicator& world, RunInfo info, Snapshot snapshot);

  /// True between begin and the end of the save.
  bool pending() const { return pending_.valid(); }

  /// Collective. Commits if every rank has written its shard, else returns nothing. One integer is
  /// reduced when there is a save pending; free otherwise.
  std::optional<SaveResult> try_finish(comm::Communicator& world);

  /// Collective. Waits for all shards and commits; nothing if no save is pending.
  std::optional<SaveResult> finish(comm::Communicator& world);

 private:
  SaveResult commit(const std::vector<std::string>& reports);
  void tell(std::string_view stage) const;
  std::filesystem::path unfinished_folder() const;

  std::filesystem::path run_folder_;
  KeepPolicy keep_;
  SaveObserver observer_;
  RunInfo info_;
  double begun_ = 0;
  std::future<ShardReport> pending_;
};

}  // namespace fathom::checkpoints
