#include "comm/mpi/mpi_session.h"

#include <cstdlib>
#include <exception>
#include <mpi.h>
#include <numeric>
#include <unistd.h>

#include "comm/mpi/mpi_check.h"
#include "comm/mpi/mpi_communicator.h"
#include "core/error.h"

namespace fathom::comm {
namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown host";
}

}  // namespace

MpiSession::MpiSession(const MpiOptions& options)
    : launch_(read_launch_environment()),
      host_(host_name()),
      watch_seconds_(options.watch_seconds) {
  if (launch_.launched()) {
    watch("the start of MPI");
    start_mpi(options);
  } else {
    world_ = self_communicator();
    node_ = self_communicator();
  }
}

void MpiSession::start_mpi(const MpiOptions& options) {
  // Only the watchdog calls MPI beside the main thread, and only to abort; that still needs the
  // highest level.
  int provided = MPI_THREAD_SINGLE;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  require(code == MPI_SUCCESS, ErrorKind::comm, host_, ": MPI_Init_thread failed with code ", code);
  require(provided == MPI_THREAD_MULTIPLE, ErrorKind::config,
          "this MPI library gives thread level ", provided, " but MPI_THREAD_MULTIPLE (",
          MPI_THREAD_MULTIPLE, ") is needed: use one that is built with thread support");
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  auto world = std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, options);
  node_ = world->split_by_node();
  world_ = std::move(world);
}

MpiSession::~MpiSession() {
  if (!launch_.launched()) return;
  if (std::uncaught_exceptions() > 0) abort(exit_code(ErrorKind::internal));
  watch("the end of MPI");
  node_.reset();
  world_.reset();
  MPI_Finalize();
  started();
}

// As if it were one collective of all ranks, as far as the launcher says how many there are.
void MpiSession::watch(const char* what) {
  started();
  if (watch_seconds_ <= 0) return;
  const int ranks = launch_.mpirun_ranks.value_or(launch_.srun_ranks.value_or(1));
  edge_ = std::make_unique<Watchdog>(
      Watchdog::Place{.rank = launched_rank(), .ranks = ranks, .host = host_, .folder = {}},
      Watchdog::Seconds(watch_seconds_), [this] { abort(exit_code(ErrorKind::comm)); });
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  edge_call_.emplace(edge_.get(), what, edge_->add_group(std::move(all)));
}

void MpiSession::started() {
  edge_call_.reset();
  edge_.reset();
}

void MpiSession::abort(int code) {
  int up = 0, down = 0;
  if (launch_.launched()) {
    MPI_Initialized(&up);
    MPI_Finalized(&down);
  }
  if (up && !down) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace fathom::comm
