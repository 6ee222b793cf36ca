#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fathom::comm {

/// What one rank was doing when it stopped making progress. -1 and empty texts mean "has none".
struct HangReport {
  int rank = 0;
  int ranks = 1;
  std::string host;
  std::int64_t pid = 0;
  double silent_seconds = 0;
  std::uint64_t sequence = 0;  ///< notes of this rank since it started
  std::string phase;           ///< saving, loading, evaluating
  std::string action;
  std::int64_t step = -1;
  std::int64_t micro_batch = -1;

  std::string call;              ///< empty: it is not waiting for other ranks
  std::vector<int> members;      ///< of the group of the call, as ranks of the world
  std::uint64_t collective = 0;  ///< number of the collective in that group; 0: a message
  std::int64_t peer = -1;        ///< of a message, as a rank of the world
  std::int64_t tag = -1;
};

/// "rank 0 on node07: recv from rank 1 (tag 5) in recv_bundle, step 7, micro-batch 2, silent for 30
/// s"
std::string to_string(const HangReport& report);

/// Writes rank_00003.json into the folder, which is made if needed, or removes it. Both do nothing
/// once the reports are closed. Throws Error(io).
void write_report(const std::filesystem::path& folder, const HangReport& report);
void remove_report(const std::filesystem::path& folder, int rank);

/// Keeps the reports as they are: the job ends. A launcher wakes stopped processes before it kills
/// them, so that for a moment the rank that all waited for answers and the others go on.
void close_reports(const std::filesystem::path& folder);

/// All reports of one hang, by rank. Throws Error(io) naming a file that is not a report.
std::vector<HangReport> read_reports(const std::filesystem::path& folder);

/// The ranks that the others wait for, and why, as one sentence each. A rank without a report is
/// stopped or gone with its machine; then come those that wait for nobody; then the one that is
/// furthest behind in the collectives of a group; then those that miss each other in a circle.
struct Culprits {
  std::vector<int> ranks;
  std::string reason;
};
Culprits find_culprits(const std::vector<HangReport>& reports);

/// All reports, one line each, and the culprits: what `fathom hang-report` prints.
std::string merge_reports(const std::vector<HangReport>& reports);

/// The folder of the newest hang of a run: RUN/hang/<start of the run>, leaving out those whose
/// ranks all went on and took their reports back. Throws Error(io) if there is none.
std::filesystem::path newest_hang(const std::filesystem::path& run_folder);

}  // namespace fathom::comm
