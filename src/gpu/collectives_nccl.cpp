#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "core/error.h"
#include "gpu/collective_lane.h"
#include "gpu/gpu_device.h"
#include "kernels/backend.h"

namespace fathom::gpu {
namespace {

// Messages have the time of a micro-batch's kernels, beside which they run: few thread blocks do,
// and each costs a channel's buffers.
constexpr int kMessageBlocks = 8;

ncclRedOp_t nccl_op(DeviceReduce op) {
  switch (op) {
    case DeviceReduce::sum:
      return ncclSum;
    case DeviceReduce::max:
      return ncclMax;
    case DeviceReduce::min:
      return ncclMin;
  }
  fail(ErrorKind::internal, "unknown DeviceReduce ", static_cast<int>(op));
}

auto reduction(float* data, std::size_t n, DeviceReduce op) {
  return [=](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(data, data, n, ncclFloat32, nccl_op(op), comm, stream);
  };
}

/// A piece of the device's memory for as long as it lives.
class Scratch {
 public:
  Scratch(Device& device, std::size_t bytes) : device_(device), memory_(device.allocate(bytes)) {
    device.fill_zero(memory_, bytes);
  }
  ~Scratch() { device_.free(memory_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  float* floats() const { return static_cast<float*>(memory_); }

 private:
  Device& device_;
  void* memory_;
};

/// Up to three communicators of the same ranks. NCCL runs the operations of one in their order, and
/// a message holds up what comes after it until its receiver is ready. In a pipeline the messages
/// to higher ranks and those to lower ones cross: with a communicator and a stream for each
/// direction, every stage's receives and sends of one direction follow the micro-batches, so that
/// the messages of a direction wait only for each other and for kernels, and the last stage waits
/// for none.
class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(Device& device, const ncclUniqueId& id, int rank, int size, bool messages)
      : device_(device),
        rank_(rank),
        size_(size),
        reductions_(
            std::make_unique<NcclCommunicator>(gpu_device(device).host_wait(), id, rank, size),
            stream_of(device)) {
    if (messages) {
      upwards_ = branch();
      downwards_ = branch();
    }
    connect();
    check_ = gpu_device(device).add_wait_check([this] { check(); });
  }
  /// Waits for what is in flight, unless it cannot end: then it is given up.
  ~NcclCollectives() override {
    if (std::uncaught_exceptions() == 0) {
      try {
        for (CollectiveLane* lane : lanes()) lane->join();
        device_.synchronize();
      } catch (const Error&) {
        abort();
      }
    }
    gpu_device(device_).remove_wait_check(check_);
  }

  void all_reduce(float* data, std::size_t n, DeviceReduce op) override {
    reductions_.run({"ncclAllReduce", n * sizeof(float)}, reduction(data, n, op));
  }
  std::unique_ptr<Transfer> start_all_reduce(float* data, std::size_t n, DeviceReduce op) override {
    return reductions_.start({"ncclAllReduce", n * sizeof(float)}, reduction(data, n, op));
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    reductions_.run({"ncclBroadcast", bytes, root}, [=](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(data, data, bytes, ncclUint8, root, comm, stream);
    });
  }
  void all_gather(const void* send, std::size_t bytes, void* recv) override {
    reductions_.run({"ncclAllGather", bytes}, [=](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllGather(send, recv, bytes, ncclUint8, comm, stream);
    });
  }
  void reduce_scatter(const float* send, float* recv, std::size_t n) override {
    reductions_.run({"ncclReduceScatter", n * sizeof(float)},
                    [=](ncclComm_t comm, cudaStream_t stream) {
                      return ncclReduceScatter(send, recv, n, ncclFloat32, ncclSum, comm, stream);
                    });
  }

  std::unique_ptr<Transfer> start_send(const void* data, std::size_t bytes, int peer) override {
    return messages(rank_, peer)
        .start({"ncclSend", bytes, peer}, [=](ncclComm_t comm, cudaStream_t stream) {
          return ncclSend(data, bytes, ncclUint8, peer, comm, stream);
        });
  }
  std::unique_ptr<Transfer> start_recv(void* data, std::size_t bytes, int peer) override {
    return messages(peer, rank_)
        .start({"ncclRecv", bytes, peer}, [=](ncclComm_t comm, cudaStream_t stream) {
          return ncclRecv(data, bytes, ncclUint8, peer, comm, stream);
        });
  }

  void check() override {
    for (CollectiveLane* lane : lanes()) lane->comm().check();
  }
  void abort() noexcept override {
    for (CollectiveLane* lane : lanes()) lane->comm().abort();
  }

 private:
  std::unique_ptr<CollectiveLane> branch() {
    return std::make_unique<CollectiveLane>(
        std::make_unique<NcclCommunicator>(reductions_.comm(), kMessageBlocks), stream_of(device_));
  }

  CollectiveLane& messages(int from, int to) {
    FATHOM_CHECK(upwards_ && from != to, "a message from rank ", from, " to rank ", to,
                 upwards_ ? "" : " in a group that was made for collectives only");
    return from < to ? *upwards_ : *downwards_;
  }

  std::vector<CollectiveLane*> lanes() {
    if (!upwards_) return {&reductions_};
    return {&reductions_, upwards_.get(), downwards_.get()};
  }

  /// Ranks connect at the first operation of a communicator, which then takes part of a second and
  /// holds up the host. It is done here, where a connection that fails is known before the run.
  void connect() {
    const Scratch scratch(device_, 4 * sizeof(float));
    all_reduce(scratch.floats(), 1, DeviceReduce::sum);
    if (upwards_) {
      greet(*upwards_, rank_ - 1, rank_ + 1, scratch.floats());
      greet(*downwards_, rank_ + 1, rank_ - 1, scratch.floats() + 2);
    }
    await_connections();
  }

  void greet(CollectiveLane& lane, int from, int to, float* scratch) {
    const auto exists = [&](int rank) { return 0 <= rank && rank < size_; };
    const NcclCall what{"ncclGroupEnd", 2 * sizeof(float)};
    lane.run(what, [&](ncclComm_t comm, cudaStream_t stream) {
      lane.comm().finish(ncclGroupStart(), {"ncclGroupStart"});
      if (exists(to))
        lane.comm().finish(ncclSend(scratch, sizeof(float), ncclUint8, to, comm, stream),
                           {"ncclSend", sizeof(float), to});
      if (exists(from))
        lane.comm().finish(ncclRecv(scratch + 1, sizeof(float), ncclUint8, from, comm, stream),
                           {"ncclRecv", sizeof(float), from});
      return ncclGroupEnd();
    });
  }

  void await_connections() {
    const auto deadline = std::chrono::steady_clock::now() + kNcclLimit;
    const HostWait::Mark mark(gpu_device(device_).host_wait());
    const Event connected = make_event();
    FATHOM_CUDA(cudaEventRecord(connected.get(), stream_of(device_)));
    for (;;) {
      const cudaError_t status = cudaEventQuery(connected.get());
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) FATHOM_CUDA(status);
      check();
      if (std::chrono::steady_clock::now() > deadline) {
        abort();
        fail(ErrorKind::comm, "rank ", rank_, " of ", size_,
             " in its group: the devices are not connected after ", kNcclLimit.count(), " s");
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  Device& device_;
  int rank_;
  int size_;
  CollectiveLane reductions_;
  std::unique_ptr<CollectiveLane> upwards_, downwards_;
  int check_ = 0;
};

}  // namespace
}  // namespace fathom::gpu

namespace fathom::kernels {

std::string new_collectives_id() {
  ncclUniqueId id;
  const ncclResult_t status = ncclGetUniqueId(&id);
  require(status == ncclSuccess, ErrorKind::comm, "ncclGetUniqueId: ", ncclGetErrorString(status),
          ": NCCL finds no network interface to meet on, or is not usable here");
  return std::string(id.internal, sizeof id.internal);
}

std::unique_ptr<DeviceCollectives> make_collectives(Device& device, const std::string& id, int rank,
                                                    int size, bool messages) {
  ncclUniqueId unique;
  FATHOM_CHECK(id.size() == sizeof unique.internal, "an id of ", id.size(), " bytes");
  std::memcpy(unique.internal, id.data(), sizeof unique.internal);
  return std::make_unique<gpu::NcclCollectives>(device, unique, rank, size, messages);
}

}  // namespace fathom::kernels
