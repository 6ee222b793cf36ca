#pragma once

#include <cstddef>
#include <mpi.h>

namespace fathom::comm {

/// Where an MPI call stands, for its error message. Peer and tag are -1 where a call has none.
struct CallSite {
  const char* name;
  std::size_t bytes = 0;
  int peer = -1;
  int tag = -1;
};

/// Throws Error(comm) unless the code is MPI_SUCCESS. The text names this rank in the world and in
/// `comm`, the call, the peer, the tag, the size, and what the library says.
void check_mpi(int code, MPI_Comm comm, const CallSite& site);

/// Throws Error(comm) when a finished receive brought fewer bytes than it was posted for; the
/// library itself reports only the opposite.
void check_received(const MPI_Status& status, std::size_t expected, MPI_Comm comm,
                    const CallSite& site);

}  // namespace fathom::comm
