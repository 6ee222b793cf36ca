#include "checkpoints/checkpoint_writer.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "checkpoints/gather.h"
#include "checkpoints/view.h"
#include "core/error.h"
#include "core/files.h"

namespace fathom::checkpoints {
namespace {

using nlohmann::json;

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

/// What a rank tells rank 0 about its shard: {"error": ...} or {"files": ..., "tensors": ...}.
std::string report_text(std::future<ShardReport> pending) {
  try {
    const ShardReport report = pending.get();
    return json{{"files", report.files}, {"tensors", tensors_to_json(report.tensors)}}.dump();
  } catch (const std::exception& error) {
    return json{{"error", error.what()}}.dump(-1, ' ', false, json::error_handler_t::replace);
  }
}

/// Joins the ranks' reports; Error(io) naming every rank that failed.
Manifest combine(const RunInfo& info, const std::vector<std::string>& reports) {
  Manifest manifest;
  manifest.run = info;
  std::string failures;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const json report = json::parse(reports[rank]);
    if (report.contains("error")) {
      failures += str(failures.empty() ? "" : "; ", "rank ", rank, ": ",
                      report["error"].get<std::string>());
      continue;
    }
    manifest.files.merge(report["files"].get<std::map<std::string, std::uint64_t>>());
    merge_tensors(manifest.tensors, tensors_from_json(report["tensors"]));
  }
  require(failures.empty(), ErrorKind::io, failures);
  require_tiling(manifest.tensors, ErrorKind::internal, "");
  return manifest;
}

std::int64_t bytes_of(const Snapshot& snapshot) {
  std::int64_t bytes = 0;
  for (const LocalTensor& tensor : snapshot.tensors)
    for (const LocalPiece& piece : tensor.pieces)
      bytes += element_count(piece.box) * static_cast<std::int64_t>(size_of(tensor.dtype));
  return bytes;
}

/// Runs a step whose failure does not undo the commit.
template <typename Step>
void attempt(std::vector<std::string>& warnings, Step step) {
  try {
    step();
  } catch (const std::exception& error) {
    warnings.emplace_back(error.what());
  }
}

json to_json(const SaveResult& result) {
  return {{"bytes", result.bytes}, {"seconds", result.seconds}, {"warnings", result.warnings}};
}

}  // namespace

std::string space_hint(const std::filesystem::path& folder, std::uint64_t bytes) {
  std::error_code unknown;
  const auto space = std::filesystem::space(folder, unknown);
  if (unknown || space.available >= bytes) return {};
  return str("the disk of '", folder.string(), "' has ", space.available >> 20,
             " MiB left and this checkpoint needs ", bytes >> 20, " MiB: it may fail");
}

CheckpointWriter::CheckpointWriter(std::filesystem::path run_folder, const KeepPolicy& keep,
                                   SaveObserver observer)
    : run_folder_(std::move(run_folder)), keep_(keep), observer_(std::move(observer)) {}

CheckpointWriter::~CheckpointWriter() {
  if (pending_.valid()) pending_.wait();
}

void CheckpointWriter::tell(std::string_view stage) const {
  if (observer_) observer_(stage);
}

std::filesystem::path CheckpointWriter::unfinished_folder() const {
  return run_folder_ / (step_name(info_.step) + ".tmp");
}

std::string CheckpointWriter::begin(comm::Communicator& world, RunInfo info, Snapshot snapshot) {
  FATHOM_CHECK(!pending(), "a save of step ", info_.step, " is under way");
  info_ = std::move(info);
  begun_ = now();
  const auto folder = unfinished_folder();
  std::string problem;
  if (world.rank() == 0) {
    try {
      std::filesystem::remove_all(folder);
      std::filesystem::create_directories(folder);
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  problem = world.broadcast_text(problem, 0);
  require(problem.empty(), ErrorKind::io, "cannot begin the checkpoint of step ", info_.step, ": ",
          problem);
  std::int64_t bytes = bytes_of(snapshot);
  world.all_reduce(&bytes, 1, comm::ReduceOp::sum);
  const std::string hint =
      world.rank() == 0 ? space_hint(folder, static_cast<std::uint64_t>(bytes)) : "";
  pending_ = std::async(std::launch::async,
                        [this, folder, rank = world.rank(), data = std::move(snapshot)] {
                          // Another node's view of a network folder may lag behind rank 0's; making
                          // it again is harmless.
                          std::filesystem::create_directories(folder);
                          return write_shard(folder, rank, data, observer_);
                        });
  return hint;
}

std::optional<SaveResult> CheckpointWriter::try_finish(comm::Communicator& world) {
  if (!pending()) return std::nullopt;
  const bool ready = pending_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (!world.all_agree(ready)) return std::nullopt;
  return finish(world);
}

std::optional<SaveResult> CheckpointWriter::finish(comm::Communicator& world) {
  if (!pending()) return std::nullopt;
  const auto reports = gather_texts(world, report_text(std::move(pending_)));
  json outcome;
  if (world.rank() == 0) {
    try {
      outcome = to_json(commit(reports));
    } catch (const std::exception& error) {
      outcome = {{"error", error.what()}};
      std::error_code ignored;
      std::filesystem::remove_all(unfinished_folder(), ignored);
    }
  }
  outcome = json::parse(
      world.broadcast_text(outcome.dump(-1, ' ', false, json::error_handler_t::replace), 0));
  if (outcome.contains("error"))
    fail(ErrorKind::io, "the checkpoint of step ", info_.step,
         " was not saved: ", outcome["error"].get<std::string>(),
         " (earlier checkpoints are untouched)");
  return SaveResult{info_.step, run_folder_ / step_name(info_.step),
                    outcome["bytes"].get<std::uint64_t>(), outcome["seconds"].get<double>(),
                    outcome["warnings"].get<std::vector<std::string>>()};
}

SaveResult CheckpointWriter::commit(const std::vector<std::string>& reports) {
  const Manifest manifest = combine(info_, reports);
  const auto folder = unfinished_folder();
  tell("all shards written");
  write_view(folder, manifest);
  files::write_text_atomically(folder / kManifestName, to_text(manifest));
  tell("manifest written");
  publish(run_folder_, info_.step);

  SaveResult result{info_.step, run_folder_ / step_name(info_.step), 0, 0, {}};
  attempt(result.warnings, [&] {
    tell("published");
    write_latest(run_folder_, info_.step);
    tell("latest written");
  });
  attempt(result.warnings, [&] { prune(run_folder_, keep_, observer_); });
  for (const auto& [name, bytes] : manifest.files) result.bytes += bytes;
  result.seconds = now() - begun_;
  return result;
}

}  // namespace fathom::checkpoints
