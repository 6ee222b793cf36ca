#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace fathom::comm {

/// What one rank computes with.
struct RankBackend {
  std::string host;
  std::string backend;  ///< kernels::Backend::name
  std::string why;      ///< it is the CPU, where that was an automatic choice
};

/// Throws Error(config) that names who differs, and why, unless all ranks run on one backend.
void check_backends(const std::vector<RankBackend>& ranks);

/// The same for this rank and the others of its group: what they do next differs between backends.
/// Collective over `world`; every rank throws the same Error(config) or none does.
void agree_on_backend(Communicator& world, const RankBackend& mine);

/// What one rank may use.
struct RankDevices {
  std::string host;
  int node = 0;                         ///< alike for ranks that share a machine's memory
  std::vector<std::string> identities;  ///< of the devices that it can use, in their order
  std::string unusable = {};            ///< what is wrong with others that it sees
};

/// The index of each rank's device among those it sees. A rank takes the one with its number among
/// the ranks of its node, or the only one where the launcher has given each rank its own. Throws
/// Error(config), with one line that names the node, when a rank has no device, a node has more
/// ranks than devices, or two ranks would share one.
std::vector<int> assign_devices(const std::vector<RankDevices>& ranks);

/// This rank's device: the `index` of kernels::DeviceOptions. 0 on a backend that counts none.
/// `node` is the group of ranks on this machine and `host` its name. Collective over `world`; every
/// rank throws the same Error(config) or none does.
int choose_device(Communicator& world, Communicator& node, const std::string& host);

}  // namespace fathom::comm
