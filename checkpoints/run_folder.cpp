#include "checkpoints/run_folder.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "checkpoints/manifest.h"
#include "core/error.h"
#include "core/files.h"

namespace fathom::checkpoints {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLatest = "LATEST";
constexpr const char* kReplaced = ".replaced.tmp";

/// The number in "step_00001200", or nothing for any other name.
std::optional<std::int64_t> parse_step(const std::string& name) {
  constexpr std::string_view prefix = "step_";
  if (!name.starts_with(prefix) || name.size() < prefix.size() + 8) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [at, code] = std::from_chars(name.data() + prefix.size(), end, step);
  if (code != std::errc() || at != end || step < 0 || step_name(step) != name) return std::nullopt;
  return step;
}

void remove_tree(const fs::path& path) {
  std::error_code code;
  fs::remove_all(path, code);
  require(!code, ErrorKind::io, "cannot remove '", path.string(), "': ", code.message());
}

}  // namespace

std::string step_name(std::int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "step_%08lld", static_cast<long long>(step));
  return name;
}

std::vector<std::int64_t> committed_steps(const fs::path& run_folder) {
  std::vector<std::int64_t> steps;
  if (!fs::is_directory(run_folder)) return steps;
  for (const auto& item : fs::directory_iterator(run_folder)) {
    const auto step = parse_step(item.path().filename().string());
    if (step && item.is_directory()) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::optional<std::int64_t> latest_step(const fs::path& run_folder) {
  const fs::path path = run_folder / kLatest;
  if (!fs::exists(path)) return std::nullopt;
  std::string text = files::read_text(path);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const auto step = parse_step(text);
  require(step.has_value(), ErrorKind::io, "'", path.string(), "' says '", text,
          "' and not the name of a checkpoint, such as '", step_name(100), "'");
  return step;
}

void write_latest(const fs::path& run_folder, std::int64_t step) {
  files::write_text_atomically(run_folder / kLatest, step_name(step) + "\n");
}

void publish(const fs::path& run_folder, std::int64_t step) {
  const fs::path target = run_folder / step_name(step);
  const fs::path unfinished = target.string() + ".tmp";
  const fs::path aside = target.string() + kReplaced;
  files::sync_directory(unfinished);
  const bool replaces = fs::exists(target);
  // Where the file system can swap two names there is no moment without a checkpoint of this step.
  const bool swapped = replaces && files::exchange_files(unfinished, target);
  if (replaces && !swapped) files::rename_file(target, aside);
  if (!swapped) files::rename_file(unfinished, target);
  files::sync_directory(run_folder);
  if (replaces) remove_tree(swapped ? unfinished : aside);
}

void prune(const fs::path& run_folder, const KeepPolicy& policy, const SaveObserver& observer) {
  const auto tell = [&](std::string_view stage) {
    if (observer) observer(stage);
  };
  if (policy.last <= 0) return;
  const auto steps = committed_steps(run_folder);
  const auto keep = std::min(steps.size(), static_cast<std::size_t>(policy.last));
  for (std::size_t i = 0; i + keep < steps.size(); ++i) {
    if (policy.every > 0 && steps[i] % policy.every == 0) continue;
    const fs::path victim = run_folder / step_name(steps[i]);
    const fs::path renamed = victim.string() + ".pruned.tmp";
    tell("pruning");
    files::rename_file(victim, renamed);
    // The new name is on the disk before anything goes: a power cut leaves no half checkpoint.
    files::sync_directory(run_folder);
    tell("pruned renamed");
    fs::remove(renamed / kManifestName);
    tell("pruned half");
    remove_tree(renamed);
    tell("pruned");
  }
}

std::vector<std::string> set_aside_after(const fs::path& run_folder, std::int64_t step) {
  std::vector<std::string> names;
  for (const std::int64_t later : committed_steps(run_folder)) {
    if (later <= step) continue;
    std::string name = step_name(later) + ".damaged";
    for (int i = 2; fs::exists(run_folder / name); ++i)
      name = str(step_name(later), ".damaged.", i);
    files::rename_file(run_folder / step_name(later), run_folder / name);
    names.push_back(std::move(name));
  }
  if (!names.empty()) write_latest(run_folder, step);
  return names;
}

Leftovers remove_leftovers(const fs::path& run_folder) {
  Leftovers done;
  if (!fs::is_directory(run_folder)) return done;
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(run_folder)) {
    const std::string name = item.path().filename().string();
    if (name.starts_with("step_") && name.ends_with(".tmp")) names.push_back(name);
  }
  for (const std::string& name : names) {
    const std::string replaced = name.substr(0, name.rfind(kReplaced));
    if (name.ends_with(kReplaced) && !fs::exists(run_folder / replaced)) {
      files::rename_file(run_folder / name, run_folder / replaced);
      done.restored.push_back(replaced);
    } else {
      remove_tree(run_folder / name);
      done.removed.push_back(name);
    }
  }
  if (!done.restored.empty()) files::sync_directory(run_folder);
  return done;
}

}  // namespace fathom::checkpoints
