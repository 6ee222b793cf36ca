#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The names inside a run's folder: step_00001200 is a committed checkpoint, anything that ends in
/// .tmp is unfinished or on its way out, LATEST names the newest for people and scripts. Only rank
/// 0 calls these.
namespace fathom::checkpoints {

/// "step_00001200"
std::string step_name(std::int64_t step);

/// Steps of the committed checkpoints (by name alone), ascending. Empty if there is no such folder.
std::vector<std::int64_t> committed_steps(const std::filesystem::path& run_folder);

/// The step that LATEST names; nothing if there is no such file. Throws Error(io) if it is
/// malformed.
std::optional<std::int64_t> latest_step(const std::filesystem::path& run_folder);
void write_latest(const std::filesystem::path& run_folder, std::int64_t step);

/// Renames step_X.tmp into its place for good. A checkpoint of the same step that is already there
/// (the run was taken back to an earlier one) is moved aside and removed afterwards.
void publish(const std::filesystem::path& run_folder, std::int64_t step);

/// Told the name of each stage of saving and pruning as it is reached, from whichever thread is at
/// work: for tests that break off there.
using SaveObserver = std::function<void(std::string_view stage)>;

/// Which checkpoints stay.
struct KeepPolicy {
  std::int64_t last = 0;   ///< the newest so many; 0 keeps all
  std::int64_t every = 0;  ///< besides, every step that this number divides; 0 for none
};

/// Removes the others, each renamed to *.tmp first so that none is ever half there.
void prune(const std::filesystem::path& run_folder, const KeepPolicy& policy,
           const SaveObserver& observer = {});

/// Takes every checkpoint after `step` out of the run, which went back to that one: each is renamed
/// to step_X.damaged (.damaged.2 and so on), for people to look at. Returns the new names.
std::vector<std::string> set_aside_after(const std::filesystem::path& run_folder,
                                         std::int64_t step);

/// What remove_leftovers() did, by name.
struct Leftovers {
  std::vector<std::string> removed;
  std::vector<std::string> restored;
};

/// Removes what an interrupted save or prune left (step_*.tmp). A checkpoint that was moved aside
/// for another of its step, which then did not come, gets its name back. The caller must hold the
/// folder's RunLock.
Leftovers remove_leftovers(const std::filesystem::path& run_folder);

}  // namespace fathom::checkpoints
