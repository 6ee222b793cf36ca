#pragma once

#include <mpi.h>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi/mpi_check.h"

namespace fathom::comm {

/// The chunks of one transfer, as MPI sees them.
class MpiRequest final : public Request::State {
 public:
  /// `receives`: whether the size of each finished chunk is checked.
  MpiRequest(MPI_Comm comm, const CallSite& site, bool receives)
      : comm_(comm), site_(site), receives_(receives) {}

  /// The slot for the next chunk's handle.
  MPI_Request* add(std::size_t bytes);

  void wait() override;
  bool test() override;
  void abandon() noexcept override;

 private:
  struct Chunk {
    MPI_Request handle = MPI_REQUEST_NULL;
    std::size_t bytes = 0;
  };
  void finish_first(const MPI_Status& status);

  MPI_Comm comm_;
  CallSite site_;
  bool receives_;
  std::vector<Chunk> chunks_;
  std::size_t finished_ = 0;  ///< chunks before this one are done
};

}  // namespace fathom::comm
