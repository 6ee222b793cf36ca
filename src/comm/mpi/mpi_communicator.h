#pragma once

#include <mpi.h>

#include "comm/communicator.h"
#include "comm/mpi/mpi_options.h"
#include "comm/mpi/shared_reducer.h"

namespace fathom::comm {

/// A group of MPI ranks. No call passes more than options.chunk_bytes to the library at once, so
/// its int counts never overflow.
class MpiCommunicator final : public Communicator {
 public:
  /// Takes over `comm` (frees it unless it is the world) and makes its errors return. Collective.
  MpiCommunicator(MPI_Comm comm, const MpiOptions& options);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override;
  void all_reduce(float* data, std::size_t n, ReduceOp op) override;
  void all_reduce(double* data, std::size_t n, ReduceOp op) override;
  void all_reduce(std::int64_t* data, std::size_t n, ReduceOp op) override;
  Request start_all_reduce(float* data, std::size_t n, ReduceOp op) override;
  void broadcast(void* data, std::size_t bytes, int root) override;
  void all_gather(const void* send, std::size_t bytes, void* recv) override;
  void reduce_scatter(const float* send, float* recv, std::size_t n) override;
  Request start_send(const void* data, std::size_t bytes, int peer, int tag) override;
  Request start_recv(void* data, std::size_t bytes, int peer, int tag) override;
  std::unique_ptr<Communicator> split(int color, int key) override;

  /// The ranks of this group that share this rank's memory; collective.
  std::unique_ptr<Communicator> split_by_node();

 private:
  template <typename T>
  void all_reduce_chunks(T* data, std::size_t n, MPI_Datatype type, ReduceOp op);
  /// Starts an all-reduce through shared memory, where there is any and the size is worth it.
  std::unique_ptr<Request::State> start_shared(float* data, std::size_t n, ReduceOp op);
  std::unique_ptr<Communicator> adopt(MPI_Comm comm) const;

  MPI_Comm comm_;
  MpiOptions options_;
  int rank_ = 0;
  int size_ = 1;
  std::shared_ptr<SharedReducer> shared_;  ///< nullptr when the group spans nodes or is one rank
};

}  // namespace fathom::comm
