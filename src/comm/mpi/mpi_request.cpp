#include "comm/mpi/mpi_request.h"

namespace fathom::comm {

MPI_Request* MpiRequest::add(std::size_t bytes) {
  chunks_.push_back({MPI_REQUEST_NULL, bytes});
  return &chunks_.back().handle;
}

void MpiRequest::wait() {
  while (finished_ < chunks_.size()) {
    MPI_Status status;
    check_mpi(MPI_Wait(&chunks_[finished_].handle, &status), comm_, site_);
    finish_first(status);
  }
}

bool MpiRequest::test() {
  while (finished_ < chunks_.size()) {
    MPI_Status status;
    int done = 0;
    check_mpi(MPI_Test(&chunks_[finished_].handle, &done, &status), comm_, site_);
    if (!done) return false;
    finish_first(status);
  }
  return true;
}

void MpiRequest::finish_first(const MPI_Status& status) {
  if (receives_) check_received(status, chunks_[finished_].bytes, comm_, site_);
  ++finished_;
}

void MpiRequest::abandon() noexcept {
  if (!receives_) return;
  // Only a receive that has met no sender can be taken back. What is left ends with the process.
  for (std::size_t i = finished_; i < chunks_.size(); ++i) MPI_Cancel(&chunks_[i].handle);
}

}  // namespace fathom::comm
