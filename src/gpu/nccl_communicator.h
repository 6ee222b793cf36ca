#pragma once

#include <chrono>
#include <cstddef>
#include <nccl.h>

#include "gpu/host_wait.h"

namespace fathom::gpu {

/// How long ranks wait for each other where a group starts, connects and ends.
inline constexpr std::chrono::seconds kNcclLimit{120};

/// What a call of NCCL was about, for its error message. The peer is -1 where a call has none.
struct NcclCall {
  const char* name;
  std::size_t bytes = 0;
  int peer = -1;
};

/// One communicator of NCCL, whose operations must follow one another: the caller's streams and
/// events see to that. The library never blocks the host: what takes time is polled, so that a
/// group which does not come up, and one which fails later, ends in an Error(comm) and not in
/// silence.
class NcclCommunicator {
 public:
  using Limit = std::chrono::milliseconds;

  /// Joins the group of the id. Collective over its ranks; blocks until all are there. Throws
  /// Error(comm), when they are not within the limit at the latest. The host is seen to wait for
  /// the device of `wait`, which must outlive the communicator, whenever it waits for other ranks.
  NcclCommunicator(HostWait& wait, const ncclUniqueId& id, int rank, int size,
                   Limit limit = kNcclLimit);
  /// Another communicator of the parent's ranks, which takes at most this many thread blocks from
  /// the kernels beside it. Collective over the ranks.
  NcclCommunicator(NcclCommunicator& parent, int most_blocks);

  /// Leaves together with the other ranks; after a failure, while an exception unwinds the stack,
  /// and where they do not come in time, without them. What the communicator was given must have
  /// run, but after a failure.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  ncclComm_t get() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Takes what a call of the library returned; it has enqueued its work when finish() returns. The
  /// first operations of a kind connect ranks, and then take as long as the slowest of them. Throws
  /// Error(comm) when the call failed or takes longer than the limit.
  void finish(ncclResult_t status, const NcclCall& call, Limit limit = kNcclLimit);
  /// Throws Error(comm) if the library has reported a failure.
  void check();
  void abort() noexcept;

 private:
  void start(ncclResult_t status, const char* name, Limit limit);
  ncclResult_t settle(ncclResult_t status, Limit limit);
  ncclResult_t state() const;
  [[noreturn]] void fail_with(ncclResult_t status, const NcclCall& call);

  HostWait& wait_;
  ncclComm_t comm_ = nullptr;
  int rank_;
  int size_;
  NcclCall last_{"ncclCommInitRankConfig"};  // the call that a later failure is told with
  bool failed_ = false;
};

}  // namespace fathom::gpu
