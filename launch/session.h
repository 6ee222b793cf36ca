#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/mpi/mpi_session.h"
#include "comm/process_grid.h"
#include "core/error.h"
#include "launch/launch_report.h"

namespace fathom::launch {

/// Rank that the launcher gave this process, before MPI has started; 0 without a launcher.
int launched_rank();

/// Prints an error on standard error: rank 0 at once, other ranks a moment later, so that an error
/// which all ranks share is seen once and one that a single rank has is seen too.
void report(int rank, const std::string& message);

/// Says that a command was stopped before it had anything to show; the exit code for it.
int report_stop(int signal);

/// Starts MPI, checks that `ranks` came up, and runs the body. An error on any rank ends the whole
/// job with that error's exit code. Returns the body's exit code, or kStoppedExitCode for a body
/// that throws Stopped on every rank.
int run_distributed(std::int64_t ranks, const std::function<int(comm::MpiSession&)>& body);

/// Sets this rank's thread count: `wanted`, or by default the cores that it is bound to, divided by
/// the ranks of the node if they are not bound apart. Warns about what is known to make such a
/// launch slow, and returns every rank's place on rank 0, nothing elsewhere. Collective.
std::vector<RankPlace> choose_threads(comm::MpiSession& session, int wanted);

}  // namespace fathom::launch
