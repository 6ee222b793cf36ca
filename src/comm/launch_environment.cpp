#include "comm/launch_environment.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace fathom::comm {
namespace {

std::optional<int> read_count(const GetEnv& get, const char* name) {
  const char* text = get(name);
  if (!text) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  require(error == std::errc{} && stop == end && value > 0, ErrorKind::comm,
          "environment variable ", name, " is \"", text, "\"; a number of ranks was expected");
  return value;
}

}  // namespace

LaunchEnvironment read_launch_environment(const GetEnv& given) {
  const GetEnv get =
      given ? given : [](const char* name) -> const char* { return std::getenv(name); };
  LaunchEnvironment found;
  found.mpirun_ranks = read_count(get, "OMPI_COMM_WORLD_SIZE");
  if (!found.mpirun_ranks) found.mpirun_ranks = read_count(get, "PMI_SIZE");
  // In a batch script the allocation's SLURM_NTASKS says nothing about this process: only a job
  // step started it. Under mpirun the step belongs to mpirun's own daemons.
  if (!found.mpirun_ranks && get("SLURM_STEP_ID")) {
    found.srun_ranks = read_count(get, "SLURM_STEP_NUM_TASKS");
    if (!found.srun_ranks) found.srun_ranks = read_count(get, "SLURM_NTASKS");
  }
  found.wired = found.mpirun_ranks || get("PMIX_RANK") || get("PMI_RANK");
  return found;
}

void check_rank_count(const LaunchEnvironment& environment, int world_size, int wanted) {
  if (environment.mpirun_ranks) {
    require(*environment.mpirun_ranks == world_size, ErrorKind::comm, "mpirun started ",
            *environment.mpirun_ranks, " ranks but MPI sees ", world_size,
            ": use the mpirun of the MPI library that this program was built with");
  } else if (environment.srun_ranks) {
    require(*environment.srun_ranks == world_size, ErrorKind::comm, "srun started ",
            *environment.srun_ranks, " tasks but MPI sees ", world_size,
            ": use srun --mpi=pmix (see srun --mpi=list), or mpirun inside the allocation");
  }
  require(world_size == wanted, ErrorKind::config, "the process grid needs ", wanted, " ranks but ",
          world_size, world_size == 1 ? " is" : " are",
          " running: start it with launch/fathom-mpirun -n ", wanted, " (or srun -n ", wanted,
          "), or change grid.dp, grid.pp or grid.tp");
}

}  // namespace fathom::comm
