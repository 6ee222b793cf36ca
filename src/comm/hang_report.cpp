#include "comm/hang_report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"

namespace fathom::comm {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kClosed = "closed";  // the file that closes the reports of a folder

std::string report_name(int rank) {
  char name[32];
  std::snprintf(name, sizeof name, "rank_%05d.json", rank);
  return name;
}

bool is_report(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("rank_") && name.ends_with(".json");
}

bool has_reports(const fs::path& folder) {
  const auto entries = fs::directory_iterator(folder);
  return std::any_of(begin(entries), end(entries), is_report);
}

json to_json(const HangReport& r) {
  return {{"rank", r.rank},
          {"ranks", r.ranks},
          {"host", r.host},
          {"pid", r.pid},
          {"silent_seconds", r.silent_seconds},
          {"sequence", r.sequence},
          {"phase", r.phase},
          {"action", r.action},
          {"step", r.step},
          {"micro_batch", r.micro_batch},
          {"call", r.call},
          {"members", r.members},
          {"collective", r.collective},
          {"peer", r.peer},
          {"tag", r.tag}};
}

HangReport from_json(const json& j) {
  HangReport r;
  r.rank = j.at("rank");
  r.ranks = j.at("ranks");
  r.host = j.at("host");
  r.pid = j.at("pid");
  r.silent_seconds = j.at("silent_seconds");
  r.sequence = j.at("sequence");
  r.phase = j.at("phase");
  r.action = j.at("action");
  r.step = j.at("step");
  r.micro_batch = j.at("micro_batch");
  r.call = j.at("call");
  r.members = j.at("members").get<std::vector<int>>();
  r.collective = j.at("collective");
  r.peer = j.at("peer");
  r.tag = j.at("tag");
  return r;
}

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += str(i > 0 ? ", " : "", ranks[i]);
  return text;
}

std::string call_text(const HangReport& r) {
  if (r.call.empty()) return "waits for nobody";
  if (r.peer >= 0) return str("waits in ", r.call, " with rank ", r.peer, " (tag ", r.tag, ")");
  return str("waits in ", r.call, " ", r.collective, " of ", list(r.members));
}

std::vector<int> ranks_without_report(const std::vector<HangReport>& reports) {
  std::vector<int> missing;
  for (int rank = 0; rank < reports.front().ranks; ++rank)
    if (std::none_of(reports.begin(), reports.end(),
                     [&](const HangReport& r) { return r.rank == rank; }))
      missing.push_back(rank);
  return missing;
}

/// Ranks that others of their group wait for in a later collective than they have reached.
std::vector<int> ranks_behind(const std::vector<HangReport>& reports) {
  std::map<std::vector<int>, std::uint64_t> furthest;
  for (const HangReport& r : reports)
    if (r.collective > 0) furthest[r.members] = std::max(furthest[r.members], r.collective);
  std::vector<int> behind;
  for (const HangReport& r : reports)
    if (r.collective > 0 && r.collective < furthest[r.members]) behind.push_back(r.rank);
  return behind;
}

}  // namespace

std::string to_string(const HangReport& r) {
  const auto field = [](const char* label, std::int64_t value) {
    return value < 0 ? std::string() : str(", ", label, " ", value);
  };
  return str("rank ", r.rank, " on ", r.host, " (pid ", r.pid, ") ", call_text(r), "; last action ",
             r.action, field("step", r.step), field("micro-batch", r.micro_batch),
             r.phase.empty() ? "" : ", while it " + r.phase + "s", "; note ", r.sequence,
             ", silent for ", r.silent_seconds, " s");
}

void close_reports(const fs::path& folder) {
  std::ofstream(folder / kClosed) << "the job ended here\n";  // several ranks may, at once
}

void write_report(const fs::path& folder, const HangReport& report) {
  if (fs::exists(folder / kClosed)) return;
  fs::create_directories(folder);
  files::write_text_atomically(folder / report_name(report.rank), to_json(report).dump(2) + "\n");
}

void remove_report(const fs::path& folder, int rank) {
  std::error_code ignored;
  if (!fs::exists(folder / kClosed, ignored)) fs::remove(folder / report_name(rank), ignored);
}

std::vector<HangReport> read_reports(const fs::path& folder) {
  std::vector<HangReport> reports;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!is_report(entry.path())) continue;
    try {
      reports.push_back(from_json(json::parse(files::read_text(entry.path()))));
    } catch (const json::exception& error) {
      fail(ErrorKind::io, entry.path().string(), " is not a report of a hang: ", error.what());
    }
  }
  std::sort(reports.begin(), reports.end(),
            [](const HangReport& a, const HangReport& b) { return a.rank < b.rank; });
  return reports;
}

Culprits find_culprits(const std::vector<HangReport>& reports) {
  if (reports.empty()) return {{}, "no rank has reported"};
  Culprits found{ranks_without_report(reports),
                 "gave no report: the process is stopped, or gone with its machine"};
  if (!found.ranks.empty()) return found;
  for (const HangReport& r : reports)
    if (r.call.empty()) found.ranks.push_back(r.rank);
  found.reason = "waits for no other rank and does not get on with its own work";
  if (!found.ranks.empty()) return found;
  found = {ranks_behind(reports), "is behind the others in the collectives of its group"};
  if (!found.ranks.empty()) return found;
  for (const HangReport& r : reports) found.ranks.push_back(r.rank);
  return {found.ranks, "wait for each other: their calls do not match"};
}

std::string merge_reports(const std::vector<HangReport>& reports) {
  std::string text;
  for (const HangReport& report : reports) text += to_string(report) + "\n";
  const Culprits culprits = find_culprits(reports);
  if (culprits.ranks.empty()) return text + culprits.reason + "\n";
  return text + "the job waited for " + list(culprits.ranks) + ": " + culprits.reason + "\n";
}

fs::path newest_hang(const fs::path& run_folder) {
  const fs::path hangs = run_folder / "hang";
  std::vector<fs::path> folders;
  if (fs::is_directory(hangs))
    for (const auto& entry : fs::directory_iterator(hangs))
      if (entry.is_directory() && has_reports(entry.path())) folders.push_back(entry.path());
  require(!folders.empty(), ErrorKind::io, "'", run_folder.string(), "' has no reports of a hang (",
          hangs.string(), ")");
  return *std::max_element(folders.begin(), folders.end());
}

}  // namespace fathom::comm
