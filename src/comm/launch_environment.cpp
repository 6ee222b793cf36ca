#include "comm/launch_environment.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "core/error.h"

namespace fathom::comm {
namespace {

std::optional<int> read_count(const GetEnv& get, const char* name) {
  const char* text = get(name);
  if (!text) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  require(error == std::errc{} && stop == end && value > 0, ErrorKind::config,
          "environment variable ", name, " is \"", text, "\"; a number of ranks was expected");
  return value;
}

GetEnv or_environment(const GetEnv& given) {
  return given ? given : [](const char* name) -> const char* { return std::getenv(name); };
}

// Slurm's count for the node of this number, of a text such as "4(x2),3": two nodes with 4 tasks
// and one with 3.
std::optional<int> tasks_of_node(const char* text, int node) {
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int tasks = 0, nodes = 1;
    if (std::sscanf(part.c_str(), "%d(x%d)", &tasks, &nodes) < 1) return std::nullopt;
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return std::nullopt;
}

std::optional<int> read_node_ranks(const GetEnv& get) {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
    if (const auto ranks = read_count(get, name)) return ranks;
  const char *tasks = get("SLURM_STEP_TASKS_PER_NODE"), *node = get("SLURM_NODEID");
  return tasks && node ? tasks_of_node(tasks, std::atoi(node)) : std::nullopt;
}

}  // namespace

LaunchEnvironment read_launch_environment(const GetEnv& given) {
  const GetEnv get = or_environment(given);
  LaunchEnvironment found;
  found.mpirun_ranks = read_count(get, "OMPI_COMM_WORLD_SIZE");
  if (!found.mpirun_ranks) found.mpirun_ranks = read_count(get, "PMI_SIZE");
  // Under mpirun a Slurm step belongs to mpirun's own daemons, so its count says nothing.
  if (!found.mpirun_ranks) found.srun_ranks = read_count(get, "SLURM_STEP_NUM_TASKS");
  if (!found.mpirun_ranks && !found.srun_ranks) found.srun_ranks = read_count(get, "SLURM_NTASKS");
  found.node_ranks = read_node_ranks(get);
  found.wired = found.mpirun_ranks || get("PMIX_RANK") || get("PMI_RANK");
  return found;
}

int launched_rank(const GetEnv& given) {
  const GetEnv get = or_environment(given);
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* value = get(name)) return std::atoi(value);
  return 0;
}

void check_rank_count(const LaunchEnvironment& environment, int world_size, int wanted) {
  if (environment.mpirun_ranks) {
    require(*environment.mpirun_ranks == world_size, ErrorKind::config, "mpirun started ",
            *environment.mpirun_ranks, " ranks but MPI sees ", world_size,
            ": use the mpirun of the MPI library that this program was built with");
  } else if (environment.srun_ranks) {
    require(*environment.srun_ranks == world_size, ErrorKind::config, "Slurm says ",
            *environment.srun_ranks, " tasks but MPI sees ", world_size,
            ": start it with srun --mpi=pmix (see srun --mpi=list) or with mpirun; for one process "
            "by hand inside an allocation, unset SLURM_NTASKS");
  }
  require(world_size == wanted, ErrorKind::config, "the process grid needs ", wanted, " ranks but ",
          world_size, world_size == 1 ? " is" : " are",
          " running: start it with launch/fathom-mpirun -n ", wanted, " (or srun -n ", wanted,
          "), or change grid.dp, grid.pp or grid.tp");
}

}  // namespace fathom::comm
