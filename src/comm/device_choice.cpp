#include "comm/device_choice.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/number_ranges.h"
#include "kernels/backend.h"

namespace fathom::comm {
namespace {

using nlohmann::json;

constexpr const char* kWhatToDo =
    "; start one rank for each device (mpirun -npernode N, or srun --ntasks-per-node=N with "
    "--gpus-per-node=N), or use run.device=cpu";

std::string to_text(const RankDevices& rank) {
  return json{{"host", rank.host},
              {"node", rank.node},
              {"identities", rank.identities},
              {"unusable", rank.unusable}}
      .dump();
}

RankDevices from_text(const std::string& text) {
  const json j = json::parse(text);
  return {j.at("host"), j.at("node"), j.at("identities").get<std::vector<std::string>>(),
          j.at("unusable")};
}

int ranks_of_node(const std::vector<RankDevices>& ranks, int node) {
  int count = 0;
  for (const RankDevices& rank : ranks) count += rank.node == node;
  return count;
}

// "ranks 4-7 on n1: cpu (no NVIDIA driver)" for each kind of rank, in the order of their first.
std::string kinds_text(const std::vector<RankBackend>& ranks) {
  std::vector<std::pair<RankBackend, std::vector<int>>> kinds;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto same = [&](const auto& kind) {
      return kind.first.backend == ranks[r].backend && kind.first.host == ranks[r].host;
    };
    auto kind = std::find_if(kinds.begin(), kinds.end(), same);
    if (kind == kinds.end()) kind = kinds.insert(kind, {ranks[r], {}});
    kind->second.push_back(static_cast<int>(r));
  }
  std::string text;
  for (const auto& [kind, members] : kinds)
    text += str(text.empty() ? "" : ", ", members.size() == 1 ? "rank " : "ranks ",
                number_ranges(members), " on ", kind.host, ": ", kind.backend,
                kind.why.empty() ? "" : str(" (", kind.why, ")"));
  return text;
}

}  // namespace

void check_backends(const std::vector<RankBackend>& ranks) {
  for (const RankBackend& rank : ranks)
    if (rank.backend != ranks.front().backend)
      fail(ErrorKind::config, "ranks do not all compute on the same kind of device: ",
           kinds_text(ranks), "; use nodes that are alike, or run.device=cpu");
}

void agree_on_backend(Communicator& world, const RankBackend& mine) {
  const json text = {{"host", mine.host}, {"backend", mine.backend}, {"why", mine.why}};
  std::vector<RankBackend> ranks;
  for (const std::string& one : world.all_gather_text(text.dump())) {
    const json j = json::parse(one);
    ranks.push_back({j.at("host"), j.at("backend"), j.at("why")});
  }
  check_backends(ranks);
}

std::vector<int> assign_devices(const std::vector<RankDevices>& ranks) {
  std::map<int, int> started;                               // ranks of each node so far
  std::map<std::pair<int, std::string>, std::size_t> user;  // of each device, by node and identity
  std::vector<int> chosen;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankDevices& rank = ranks[r];
    const std::size_t devices = rank.identities.size();
    require(devices > 0, ErrorKind::config, "rank ", r, " on ", rank.host, " has no GPU",
            rank.unusable.empty() ? "" : str(" that it can use (", rank.unusable, ")"), kWhatToDo);
    const auto local = static_cast<std::size_t>(started[rank.node]++);
    require(devices == 1 || local < devices, ErrorKind::config, rank.host, " has ",
            ranks_of_node(ranks, rank.node), " ranks but only ", devices, " GPUs", kWhatToDo);
    const std::size_t index = devices == 1 ? 0 : local;
    const std::string& identity = rank.identities[index];
    const auto [taken, is_new] = user.try_emplace({rank.node, identity}, r);
    require(is_new, ErrorKind::config, "ranks ", taken->second, " and ", r, " on ", rank.host,
            " would share GPU ", identity, ": ", ranks_of_node(ranks, rank.node),
            " ranks there, each of which sees ", devices, kWhatToDo);
    chosen.push_back(static_cast<int>(index));
  }
  return chosen;
}

int choose_device(Communicator& world, Communicator& node, const std::string& host) {
  if (!kernels::backend().owns_memory) return 0;
  RankDevices mine{.host = host, .node = world.rank(), .identities = {}};
  node.broadcast(&mine.node, sizeof mine.node, 0);
  std::vector<int> usable;
  for (int i = 0; i < kernels::device_count(); ++i) {
    const std::string identity = kernels::device_identity(i), why = kernels::why_unusable(i);
    if (!why.empty()) {
      mine.unusable += str(mine.unusable.empty() ? "" : "; ", "GPU ", i, " (", identity, ") ", why);
      continue;
    }
    usable.push_back(i);
    mine.identities.push_back(identity);
  }
  std::vector<RankDevices> ranks;
  for (const std::string& text : world.all_gather_text(to_text(mine)))
    ranks.push_back(from_text(text));
  const int chosen = assign_devices(ranks)[static_cast<std::size_t>(world.rank())];
  return usable[static_cast<std::size_t>(chosen)];
}

}  // namespace fathom::comm
