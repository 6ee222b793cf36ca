#include "comm/mpi/mpi_session.h"

#include <cstdlib>
#include <exception>
#include <mpi.h>
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
    : launch_(read_launch_environment()), host_(host_name()) {
  if (launch_.launched()) {
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
  require(provided == MPI_THREAD_MULTIPLE, ErrorKind::comm, "this MPI library gives thread level ",
          provided, " but MPI_THREAD_MULTIPLE (", MPI_THREAD_MULTIPLE,
          ") is needed: use one that is built with thread support");
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  auto world = std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, options);
  node_ = world->split_by_node();
  world_ = std::move(world);
}

MpiSession::~MpiSession() {
  if (!launch_.launched()) return;
  if (std::uncaught_exceptions() > 0) abort(exit_code(ErrorKind::internal));
  node_.reset();
  world_.reset();
  MPI_Finalize();
}

void MpiSession::abort(int code) {
  if (launch_.launched()) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace fathom::comm
