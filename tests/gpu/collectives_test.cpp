// What a device's collectives and the stand-in for NCCL under them notice: mistakes that a real
// group answers with a hang or with garbage, each planted here.

#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

#include "../mpi_main.h"
#include "core/tensor.h"
#include "gpu/collective_lane.h"
#include "gpu/gpu_device.h"
#include "gpu/sim/settings.h"
#include "kernels/elementwise.h"
#include "tests/support/expect_error.h"

namespace fathom::gpu {
namespace {

using fathom::testing::expect_error;
using Transfer = DeviceCollectives::Transfer;

/// With streams that run at once, and with streams that run only when somebody waits.
class Collectives : public ::testing::TestWithParam<bool> {
 protected:
  Collectives() { sim::settings().lazy_streams = GetParam(); }
  ~Collectives() override {
    collectives_.reset();
    device_.reset();
    sim::settings().lazy_streams = false;
  }

  DeviceCollectives& group() {
    if (!collectives_) collectives_ = kernels::make_collectives(*device_, id(), rank_, size_, true);
    return *collectives_;
  }
  std::string id() {
    return world_.broadcast_text(rank_ == 0 ? kernels::new_collectives_id() : "", 0);
  }
  std::unique_ptr<NcclCommunicator> communicator() {
    ncclUniqueId unique;
    const std::string text = id();
    std::copy(text.begin(), text.end(), unique.internal);
    return std::make_unique<NcclCommunicator>(wait(), unique, rank_, size_);
  }

  HostWait& wait() { return gpu_device(*device_).host_wait(); }

  Tensor filled(std::int64_t n, float value) {
    const Tensor tensor = Tensor::empty(*device_, {n});
    kernels::fill(tensor, value);
    return tensor;
  }
  std::vector<float> same(std::int64_t n, float value) {
    return std::vector<float>(static_cast<std::size_t>(n), value);
  }

  void reduce(NcclCommunicator& comm, const Tensor& data, const Stream& stream) {
    float* values = data.ptr<float>();
    comm.finish(ncclAllReduce(values, values, 64, ncclFloat32, ncclSum, comm.get(), stream.get()),
                {"ncclAllReduce", data.bytes()});
  }

  /// Ones of which all ranks take the sum; empty if that failed.
  std::vector<float> reduced_beside_kernels(bool waits) {
    const Stream stream = make_stream();
    const auto comm = communicator();  // goes first, with what hangs on the stream
    const Event written = make_event(), ended = make_event();
    const Tensor data = filled(64, 1);
    FATHOM_CUDA(cudaEventRecord(written.get(), stream_of(*device_)));
    if (waits) FATHOM_CUDA(cudaStreamWaitEvent(stream.get(), written.get(), 0));
    reduce(*comm, data, stream);
    FATHOM_CUDA(cudaEventRecord(ended.get(), stream.get()));
    try {
      while (cudaEventQuery(ended.get()) == cudaErrorNotReady) comm->check();
    } catch (const Error&) {
      return {};
    }
    FATHOM_CUDA(cudaStreamWaitEvent(stream_of(*device_), ended.get(), 0));
    return to_host(data);
  }

  comm::Communicator& world_ = test::world();
  int rank_ = world_.rank();
  int size_ = world_.size();
  int next_ = (rank_ + 1) % size_;
  std::unique_ptr<Device> device_ = test::make_device(std::size_t{16} << 20);
  std::unique_ptr<DeviceCollectives> collectives_;
};

TEST_P(Collectives, CountsThatDiffer) {
  const Tensor data = filled(64, 1);
  group().all_reduce(data.ptr<float>(), rank_ == 0 ? 10 : 11, DeviceReduce::sum);
  const std::string other = rank_ == 0 ? "of 10 floats where rank 1 calls all-reduce 2 (sum) of 11"
                                       : "of 11 floats where rank 0 calls all-reduce 2 (sum) of 10";
  expect_error(
      ErrorKind::comm, [&] { device_->synchronize(); }, "ncclAllReduce", "invalid usage", other);
  expect_error(
      ErrorKind::comm, [&] { group().check(); }, other);
}

TEST_P(Collectives, CallsInAnotherOrder) {
  const Tensor data = filled(64, 1);
  const auto reduce = [&] { group().all_reduce(data.ptr<float>(), 8, DeviceReduce::max); };
  const auto broadcast = [&] { group().broadcast(data.ptr<float>(), 32, 0); };
  expect_error(
      ErrorKind::comm,
      [&] {  // the other rank's call may have come before the second one here, which then says so
        if (rank_ == 0) reduce();
        broadcast();
        if (rank_ != 0) reduce();
        device_->synchronize();
      },
      rank_ == 0 ? "calls all-reduce 2 (max) of 8 floats where rank 1 calls broadcast 2"
                 : "calls broadcast 2 from rank 0 of 32 bytes where rank 0 calls all-reduce 2");
}

TEST_P(Collectives, MessagesOfAnotherSize) {
  const Tensor data = filled(64, 1);
  group();
  std::unique_ptr<Transfer> transfer;
  if (rank_ == 0) transfer = group().start_send(data.ptr<float>(), 100, 1);
  if (rank_ == 1) {
    group().start_recv(data.ptr<float>(), 128, 0)->wait();
    expect_error(
        ErrorKind::comm, [&] { device_->synchronize(); },
        "expects a message of 128 bytes from rank 0, which sends a message of 100 bytes");
  }
  world_.barrier();
  group().abort();  // rank 0 waits for ever
}

TEST_P(Collectives, MemoryThatIsWrittenToWhileItIsSent) {
  const Tensor data = filled(64, 1);
  group();
  if (rank_ == 0) {
    const auto sent = group().start_send(data.ptr<float>(), data.bytes(), 1);
    for (int i = 0; i < 100; ++i) sent->test();  // lazy streams have begun it, too
    kernels::fill(data, 2);                      // before the wait
    to_host(data);
    world_.barrier();
    sent->wait();
    expect_error(
        ErrorKind::comm, [&] { device_->synchronize(); },
        "a message to rank 1 was written to before it had been received");
    return;
  }
  world_.barrier();
  if (rank_ == 1) {
    group().start_recv(data.ptr<float>(), data.bytes(), 0)->wait();
    to_host(data);
  }
}

/// The wait on the host's side of a transfer is an event that kernels wait for: without it they see
/// what was there before.
TEST_P(Collectives, ATransferThatNobodyWaitsFor) {
  if (!sim::settings().lazy_streams) GTEST_SKIP() << "streams that run at once may be in time";
  const Tensor data = filled(64, 1), seen = filled(64, 0), later = filled(64, 0);
  const auto transfer = group().start_all_reduce(data.ptr<float>(), 64, DeviceReduce::sum);
  kernels::accumulate(data, seen);
  EXPECT_NE(to_host(seen), same(64, static_cast<float>(size_)));
  transfer->wait();
  kernels::accumulate(data, later);
  EXPECT_EQ(to_host(later), same(64, static_cast<float>(size_)));
}

/// The event that holds an operation back until the kernels before it have run.
TEST_P(Collectives, AStreamThatDoesNotWaitForTheKernels) {
  if (!sim::settings().lazy_streams) GTEST_SKIP() << "streams that run at once are always in time";
  EXPECT_EQ(reduced_beside_kernels(true), same(64, static_cast<float>(size_)));
  EXPECT_NE(reduced_beside_kernels(false), same(64, static_cast<float>(size_)));
}

TEST_P(Collectives, OperationsOfOneCommunicatorAtTheSameTime) {
  const Stream one = make_stream(), two = make_stream();
  const auto comm = communicator();
  const Tensor data = filled(64, 1);
  device_->synchronize();
  if (rank_ == 0) {  // the others never come, so that the first cannot end
    reduce(*comm, data, one);
    reduce(*comm, data, two);
    expect_error(
        ErrorKind::comm,
        [&] {
          while (cudaStreamQuery(two.get()) == cudaErrorNotReady) comm->check();
        },
        "its streams are not in order");
  }
  comm->abort();
}

/// Which the watchdog must see, since other ranks keep this one waiting.
TEST_P(Collectives, AGroupThatDoesNotComeUp) {
  ncclUniqueId unique;
  ASSERT_EQ(ncclGetUniqueId(&unique), ncclSuccess);
  std::atomic<bool> ended = false, waited = false;
  std::thread watcher([&] {
    while (!ended) waited = waited || device_->waiting();
  });
  expect_error(
      ErrorKind::comm,
      [&] { NcclCommunicator(wait(), unique, 0, size_ + 1, std::chrono::milliseconds(200)); },
      "not all ranks have answered in 0.2 s");
  ended = true;
  watcher.join();
  EXPECT_TRUE(waited);
  EXPECT_FALSE(device_->waiting());
}

/// What NCCL answers where its buffers find no room.
TEST_P(Collectives, ACallWithoutMemorySaysWhatIsFree) {
  const auto comm = communicator();
  expect_error(
      ErrorKind::comm,
      [&] {
        comm->finish(ncclUnhandledCudaError, {"ncclAllReduce", 64});
      },
      "ncclAllReduce, 64 bytes", "the GPU has ", " MiB free of ");
}

TEST_P(Collectives, AnAbortedGroupGivesUpWhatIsInFlight) {
  const Tensor data = filled(64, 1);
  const auto transfer = group().start_recv(data.ptr<float>(), data.bytes(), next_);
  group().abort();
  transfer->wait();
  device_->synchronize();
  expect_error(
      ErrorKind::comm, [&] { group().all_reduce(data.ptr<float>(), 1, DeviceReduce::sum); },
      "ncclAllReduce");
}

TEST_P(Collectives, CallsThatNcclWouldNotSurvive) {
  const auto comm = communicator();
  std::vector<float> host(64);
  const Tensor data = filled(64, 1);
  float* values = data.ptr<float>();
  cudaStream_t stream = stream_of(*device_);
  EXPECT_EQ(ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, nullptr, stream),
            ncclInvalidArgument);
  EXPECT_EQ(ncclAllGather(host.data(), values, 1, ncclUint8, comm->get(), stream),
            ncclInvalidArgument);
  EXPECT_STREQ(ncclGetLastError(comm->get()), "a buffer that does not lie in memory of a device");
  EXPECT_EQ(ncclSend(values, 1, ncclUint8, rank_, comm->get(), stream), ncclInvalidArgument);
  EXPECT_EQ(ncclRecv(values, 1, ncclUint8, size_, comm->get(), stream), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(values, values, 1, ncclFloat32, ncclProd, comm->get(), stream),
            ncclInvalidArgument);
  const ncclComm_t gone = comm->get();
  comm->abort();
  EXPECT_EQ(ncclBroadcast(values, values, 1, ncclUint8, 0, gone, stream), ncclInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Streams, Collectives, ::testing::Bool(), [](const auto& test) {
  return test.param ? std::string("lazy") : std::string("eager");
});

}  // namespace
}  // namespace fathom::gpu
