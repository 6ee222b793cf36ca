#pragma once

#include <functional>
#include <optional>
#include <string>

namespace fathom::comm {

/// What the launcher promised, read from the environment before MPI starts.
struct LaunchEnvironment {
  std::optional<int> mpirun_ranks;  ///< OMPI_COMM_WORLD_SIZE, or PMI_SIZE of MPICH-like launchers
  std::optional<int> srun_ranks;    ///< SLURM_STEP_NUM_TASKS, else SLURM_NTASKS
  std::optional<int> node_ranks;    ///< of these on this node, where the launcher says so
  bool wired = false;               ///< a process manager that MPI can talk to is there

  /// True when MPI should be initialised: without a launcher a program is a group of one, and a
  /// lone MPI_Init would be slow, or abort inside a Slurm allocation.
  bool launched() const { return wired; }
};

using GetEnv = std::function<const char*(const char*)>;

/// Reads the launcher's variables through `get` (std::getenv by default). Throws Error(config) for
/// one that is not a number.
LaunchEnvironment read_launch_environment(const GetEnv& get = {});

/// Rank that the launcher gave this process, before MPI has started; 0 without a launcher.
int launched_rank(const GetEnv& get = {});

/// Throws Error(config) when the group that came up is not what the launcher started (for example
/// srun without a PMIx plugin, which gives N groups of one), or is not the `wanted` number of
/// ranks. Each message is one line and says what to change; it is no error of communication, after
/// which a job is started again. Not collective.
void check_rank_count(const LaunchEnvironment& environment, int world_size, int wanted);

}  // namespace fathom::comm
