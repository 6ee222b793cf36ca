#include "comm/device_choice.h"

#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "kernels/backend.h"

namespace fathom::comm {
namespace {

using nlohmann::json;

constexpr const char* kWhatToDo =
    "; start one rank for each device (mpirun -npernode N, or srun --ntasks-per-node=N with "
    "--gpus-per-node=N), or use run.device=cpu";

std::string to_text(const RankDevices& rank) {
  return json{{"host", rank.host}, {"node", rank.node}, {"identities", rank.identities}}.dump();
}

RankDevices from_text(const std::string& text) {
  const json j = json::parse(text);
  return {j.at("host"), j.at("node"), j.at("identities").get<std::vector<std::string>>()};
}

int ranks_of_node(const std::vector<RankDevices>& ranks, int node) {
  int count = 0;
  for (const RankDevices& rank : ranks) count += rank.node == node;
  return count;
}

}  // namespace

std::vector<int> assign_devices(const std::vector<RankDevices>& ranks) {
  std::map<int, int> started;                               // ranks of each node so far
  std::map<std::pair<int, std::string>, std::size_t> user;  // of each device, by node and identity
  std::vector<int> chosen;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankDevices& rank = ranks[r];
    const std::size_t devices = rank.identities.size();
    require(devices > 0, ErrorKind::config, "rank ", r, " on ", rank.host, " sees no GPU",
            kWhatToDo);
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
  for (int i = 0; i < kernels::device_count(); ++i)
    mine.identities.push_back(kernels::device_identity(i));
  std::vector<RankDevices> ranks;
  for (const std::string& text : world.all_gather_text(to_text(mine)))
    ranks.push_back(from_text(text));
  return assign_devices(ranks)[static_cast<std::size_t>(world.rank())];
}

}  // namespace fathom::comm
