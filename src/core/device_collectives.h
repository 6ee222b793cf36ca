#pragma once

#include <cstddef>
#include <memory>

namespace fathom {

enum class DeviceReduce { sum, max, min };

/// A group of devices that move memory between each other in the order of their own work: every
/// call returns once it is enqueued, starts after the kernels that were launched before it, and
/// kernels launched later see its result, except between start_...() and wait() of the transfer.
/// Calls are collective, in the same order on every rank, but for sends and receives, of which those
/// from one rank to another are matched in the order in which each side makes them. Each throws
/// Error(comm) with the call and the size when the group has failed.
class DeviceCollectives {
 public:
  /// A transfer that runs beside the kernels. The memory must stay untouched until wait().
  class Transfer {
   public:
    virtual ~Transfer() = default;
    /// Kernels launched from now on see the result, and may overwrite what was sent. The host does
    /// not block.
    virtual void wait() = 0;
    /// Whether it has finished; never blocks.
    virtual bool test() = 0;
  };

  virtual ~DeviceCollectives() = default;

  virtual void all_reduce(float* data, std::size_t n, DeviceReduce op) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  virtual void all_gather(const void* send, std::size_t bytes, void* recv) = 0;
  /// recv[n] = the sum over ranks of their send[rank * n ...].
  virtual void reduce_scatter(const float* send, float* recv, std::size_t n) = 0;

  virtual std::unique_ptr<Transfer> start_all_reduce(float* data, std::size_t n,
                                                     DeviceReduce op) = 0;
  virtual std::unique_ptr<Transfer> start_send(const void* data, std::size_t bytes, int peer) = 0;
  virtual std::unique_ptr<Transfer> start_recv(void* data, std::size_t bytes, int peer) = 0;

  /// Throws Error(comm) if the library has reported a failure of the group since the last call.
  virtual void check() = 0;
  /// Gives up all that is in flight, without its peers; nothing but destruction may follow.
  virtual void abort() noexcept = 0;
};

}  // namespace fathom
