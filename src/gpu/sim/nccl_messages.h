#pragma once

#include <cstddef>
#include <list>
#include <mpi.h>
#include <vector>

namespace fathom::gpu::sim {

/// Messages of one step of an operation, over MPI between ranks of the job. Nothing blocks. Buffers
/// are its own: memory of a device is only looked at by those who call it.
class Messages {
 public:
  Messages() = default;
  /// What has not arrived is given up, and its buffers are left to the library.
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// Copies the bytes. The message is delivered when its receiver has asked for it, as between
  /// devices: nothing relies on room in between.
  void send(const void* data, std::size_t bytes, int to, int tag);

  /// The bytes are there once done().
  const std::vector<std::byte>& receive(std::size_t bytes, int from, int tag);

  /// Whether all has been delivered and received. Throws Error(comm) with MPI's words.
  bool done();

 private:
  struct Message {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  Message& add(std::size_t bytes);

  std::list<Message> pending_, finished_;
};

/// This process in the job. Requires that MPI has been started.
int job_rank();
bool job_is_up();

}  // namespace fathom::gpu::sim
