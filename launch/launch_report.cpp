#include "launch/launch_report.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstdlib>
#include <ifaddrs.h>
#include <map>
#include <net/if.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <set>

#include "core/error.h"
#include "core/number_ranges.h"

namespace fathom::launch {
namespace {

using nlohmann::json;

std::vector<int> usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  return cores;
}

/// Every IPv4 address of an interface that is up, loop-back left out.
std::vector<std::string> network_interfaces() {
  std::vector<std::string> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    if ((each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET_ADDRSTRLEN] = "";
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    found.push_back(str(each->ifa_name, " ", text));
  }
  freeifaddrs(all);
  return found;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

using Node = std::vector<const RankPlace*>;

void warn_about_cores(const std::string& host, const Node& node,
                      std::vector<std::string>& warnings) {
  std::set<int> cores;
  int threads = 0;
  for (const RankPlace* rank : node) {
    cores.insert(rank->cores.begin(), rank->cores.end());
    threads += rank->threads;
  }
  const int available = static_cast<int>(cores.size());
  if (threads > available)
    warnings.push_back(str("host ", host, ": ", node.size(), " ranks with ", threads,
                           " threads together may use only ", available,
                           available == 1 ? " core" : " cores",
                           ": give each rank its own (launch/fathom-mpirun and slurm/ do), or "
                           "lower run.threads"));
  const bool spins =
      std::any_of(node.begin(), node.end(), [](const auto* r) { return !r->yields; });
  if (static_cast<int>(node.size()) > available && spins)
    warnings.push_back(str("host ", host, ": ", node.size(), " ranks on ", available,
                           available == 1 ? " core" : " cores",
                           " wait by spinning, which makes small messages up to a thousand times "
                           "slower: set OMPI_MCA_mpi_yield_when_idle=1"));
}

void warn_about_rank(const RankPlace& rank, std::vector<std::string>& warnings) {
  if (rank.slurm_cores > static_cast<int>(rank.cores.size()))
    warnings.push_back(str("rank ", rank.rank, " is bound to ", rank.cores.size(), " of the ",
                           rank.slurm_cores,
                           " cores that Slurm gave it: srun needs --cpus-per-task of its own"));
  if (!rank.hdf5_locking.empty() && rank.hdf5_locking != "FALSE")
    warnings.push_back(str("rank ", rank.rank, ": HDF5_USE_FILE_LOCKING=", rank.hdf5_locking,
                           " switches file locks on, which some cluster file systems refuse: "
                           "unset it"));
}

}  // namespace

RankPlace find_place(int rank, const std::string& host, int threads, const comm::GetEnv& given) {
  const auto get = [&](const char* name) {
    const char* value = given ? given(name) : std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  const auto set = [&](const char* name) { return get(name) == "1" || get(name) == "true"; };
  RankPlace place;
  place.rank = rank;
  place.host = host;
  place.cores = usable_cores();
  place.threads = threads;
  place.interfaces = network_interfaces();
  place.chosen_interface = get("OMPI_MCA_btl_tcp_if_include");
  // The second is what mpirun sets when it knows that there are more ranks than cores.
  place.yields = set("OMPI_MCA_mpi_yield_when_idle") || set("OMPI_MCA_mpi_oversubscribe");
  place.slurm_cores = std::atoi(get("SLURM_CPUS_PER_TASK").c_str());
  place.hdf5_locking = get("HDF5_USE_FILE_LOCKING");
  return place;
}

std::string to_json(const RankPlace& p) {
  return json{{"rank", p.rank},
              {"host", p.host},
              {"cores", p.cores},
              {"threads", p.threads},
              {"device", p.device},
              {"interfaces", p.interfaces},
              {"chosen_interface", p.chosen_interface},
              {"yields", p.yields},
              {"slurm_cores", p.slurm_cores},
              {"hdf5_locking", p.hdf5_locking}}
      .dump();
}

RankPlace parse_place(const std::string& text) {
  const json j = json::parse(text);
  RankPlace p;
  p.rank = j.at("rank");
  p.host = j.at("host");
  p.cores = j.at("cores").get<std::vector<int>>();
  p.threads = j.at("threads");
  p.device = j.at("device");
  p.interfaces = j.at("interfaces").get<std::vector<std::string>>();
  p.chosen_interface = j.at("chosen_interface");
  p.yields = j.at("yields");
  p.slurm_cores = j.at("slurm_cores");
  p.hdf5_locking = j.at("hdf5_locking");
  return p;
}

std::string to_string(const RankPlace& p) {
  return str("rank ", p.rank, ": host ", p.host, ", ", p.threads,
             p.threads == 1 ? " thread" : " threads", " on ",
             p.cores.size() == 1 ? "core " : "cores ", number_ranges(p.cores), ", network ",
             p.interfaces.empty() ? "none" : join(p.interfaces),
             p.chosen_interface.empty() ? "" : ", of which MPI uses " + p.chosen_interface, "; on ",
             p.device);
}

std::vector<std::string> launch_warnings(const std::vector<RankPlace>& ranks) {
  std::map<std::string, Node> nodes;
  for (const RankPlace& rank : ranks) nodes[rank.host].push_back(&rank);
  std::vector<std::string> warnings;
  for (const auto& [host, node] : nodes) {
    warn_about_cores(host, node, warnings);
    const RankPlace& first = *node.front();
    if (nodes.size() > 1 && first.interfaces.size() > 1 && first.chosen_interface.empty())
      warnings.push_back(str("host ", host, " has several networks (", join(first.interfaces),
                             ") and MPI tries them all: name one that joins all hosts "
                             "(launch/fathom-mpirun --interface, FATHOM_INTERFACE in slurm/)"));
    warn_about_rank(first, warnings);
  }
  return warnings;
}

}  // namespace fathom::launch
