#pragma once

#include <string>
#include <vector>

#include "comm/launch_environment.h"

namespace fathom::launch {

/// Where a rank runs and what it may use, as it found it.
struct RankPlace {
  int rank = 0;
  std::string host;
  std::vector<int> cores;  ///< that the kernel lets it run on, ascending
  int threads = 1;
  std::string device;  ///< "cpu", or as kernels::device_identity() tells it from others
  std::vector<std::string>
      interfaces;                ///< of the network, up and not the loop-back: "eth0 10.0.0.3"
  std::string chosen_interface;  ///< OMPI_MCA_btl_tcp_if_include; empty: all of them
  bool yields = false;           ///< a waiting rank of this MPI gives its core away
  int slurm_cores = 0;           ///< SLURM_CPUS_PER_TASK; 0 without
  std::string hdf5_locking;      ///< HDF5_USE_FILE_LOCKING; empty: not set
};

/// This process's place, but for its device. `get` reads the environment (std::getenv by default).
RankPlace find_place(int rank, const std::string& host, int threads, const comm::GetEnv& get = {});

/// As text that travels between ranks, and back.
std::string to_json(const RankPlace& place);
RankPlace parse_place(const std::string& json);

/// "rank 3: host n1, 2 threads on cores 0-1, network eth0 10.77.0.11; on cuda 3 (0000:1b:00.0)"
std::string to_string(const RankPlace& place);

/// What is known to make such a launch slow or to let it hang, one sentence each.
std::vector<std::string> launch_warnings(const std::vector<RankPlace>& ranks);

}  // namespace fathom::launch
