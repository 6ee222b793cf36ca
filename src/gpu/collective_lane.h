#pragma once

#include <memory>
#include <vector>

#include "core/device_collectives.h"
#include "gpu/check.h"
#include "gpu/nccl_communicator.h"
#include "gpu/resources.h"

namespace fathom::gpu {

/// Events that mark the ends of transfers, used again and again.
class EventPool {
 public:
  Event take() {
    if (free_.empty()) return make_event();
    Event event = std::move(free_.back());
    free_.pop_back();
    return event;
  }
  void give(Event event) { free_.push_back(std::move(event)); }

 private:
  std::vector<Event> free_;
};

/// One communicator and the stream on which its transfers run beside the kernels of `compute`, one
/// after another. They take the few blocks that they need before kernels do: other ranks wait for
/// them.
class CollectiveLane {
 public:
  CollectiveLane(std::unique_ptr<NcclCommunicator> comm, cudaStream_t compute);

  NcclCommunicator& comm() { return *comm_; }

  /// Enqueues call(comm, stream), which returns an ncclResult_t, after the kernels launched so far
  /// and before the ones that follow. It runs on their own stream: there is nothing that it could
  /// overlap with, and no event to pay for.
  template <typename Call>
  void run(const NcclCall& what, Call call) {
    join();
    comm_->finish(call(comm_->get(), compute_), what);
  }

  /// Enqueues it after the kernels launched so far, beside those that follow.
  template <typename Call>
  std::unique_ptr<DeviceCollectives::Transfer> start(const NcclCall& what, Call call) {
    fork();
    comm_->finish(call(comm_->get(), stream_.get()), what);
    return make_transfer();
  }

  /// Kernels launched from now on come after all that was started here.
  void join();

 private:
  class Transfer;
  void fork();
  std::unique_ptr<DeviceCollectives::Transfer> make_transfer();

  cudaStream_t compute_;
  Stream stream_;
  Event begin_, end_;  // of the last transfer
  bool joined_ = true;
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
  std::unique_ptr<NcclCommunicator> comm_;  // goes first: what it still does needs the streams
};

}  // namespace fathom::gpu
