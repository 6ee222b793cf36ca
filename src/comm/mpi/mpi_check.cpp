#include "comm/mpi/mpi_check.h"

#include <string>

#include "core/error.h"

namespace fathom::comm {
namespace {

std::string describe(MPI_Comm comm, const CallSite& site) {
  int world_rank = -1, rank = -1, size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  if (comm != MPI_COMM_NULL) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
  }
  std::string text =
      str("rank ", world_rank, " (", rank, " of ", size, " in its group): ", site.name);
  if (site.peer >= 0) text += str(" with rank ", site.peer, " of the group");
  if (site.tag >= 0) text += str(", tag ", site.tag);
  return text + str(", ", site.bytes, " bytes");
}

}  // namespace

void check_mpi(int code, MPI_Comm comm, const CallSite& site) {
  if (code == MPI_SUCCESS) return;
  char reason[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, reason, &length);
  fail(ErrorKind::comm, describe(comm, site), ": ",
       std::string(reason, static_cast<size_t>(length)));
}

void check_received(const MPI_Status& status, std::size_t expected, MPI_Comm comm,
                    const CallSite& site) {
  int count = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), comm, site);
  require(static_cast<std::size_t>(count) == expected, ErrorKind::comm, describe(comm, site),
          ": the message has only ", count, " bytes where ", expected, " were expected");
}

}  // namespace fathom::comm
