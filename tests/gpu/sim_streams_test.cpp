// Streams and events of the stand-in, eager and lazy: what runs when, and that lazy streams show a
// wait that is missing.

#include <atomic>
#include <chrono>
#include <thread>

#include "gpu/sim/streams.h"
#include "sim_fixture.h"

namespace fathom::test {
namespace {

using namespace std::chrono_literals;

__global__ void scale(float* values, float factor) {
  values[threadIdx.x] *= factor;
}

__global__ void copy_values(const float* from, float* to) {
  to[threadIdx.x] = from[threadIdx.x];
}

class SimStreams : public SimTest {
 protected:
  SimStreams() {
    for (cudaStream_t* stream : {&a_, &b_})
      cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
  }
  ~SimStreams() override {
    cudaEventDestroy(event_);
    for (cudaStream_t stream : {a_, b_}) cudaStreamDestroy(stream);
  }
  void be_lazy() { gpu::sim::settings().lazy_streams = true; }

  // Doubles on stream a what stream b then copies, with or without the wait between them.
  std::vector<float> double_and_copy(bool wait) {
    const DeviceArray<float> values(std::vector<float>(32, 1.0f)), result(32);
    gpu::launch(scale, 1, 32, 0, a_, values.data(), 2.0f);
    EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
    if (wait) cudaStreamWaitEvent(b_, event_, 0);
    gpu::launch(copy_values, 1, 32, 0, b_, values.data(), result.data());
    EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
    return result.values();
  }

  cudaStream_t a_ = nullptr, b_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(SimStreams, ARemovedWaitIsCaughtByLazyStreams) {
  const std::vector<float> stale(32, 1.0f), right(32, 2.0f);
  EXPECT_EQ(double_and_copy(true), right);
  EXPECT_EQ(double_and_copy(false), right);  // eager streams hide it
  be_lazy();
  EXPECT_EQ(double_and_copy(true), right);
  EXPECT_EQ(double_and_copy(false), stale);
}

TEST_F(SimStreams, LazyWorkRunsInOrderWhenItIsWaitedFor) {
  be_lazy();
  std::string ran;
  for (const char step : {'1', '2', '3'}) gpu::sim::enqueue(a_, [&ran, step] { ran += step; });
  gpu::sim::enqueue(b_, [&ran] { ran += 'b'; });
  EXPECT_EQ(ran, "");
  SIM_OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(ran, "123");
  SIM_OK(cudaDeviceSynchronize());
  EXPECT_EQ(ran, "123b");
}

TEST_F(SimStreams, AnEventIsAPointOfItsStream) {
  be_lazy();
  std::string ran;
  const auto step = [&](cudaStream_t stream, char c) {
    gpu::sim::enqueue(stream, [&ran, c] { ran += c; });
  };
  step(a_, '1');
  SIM_OK(cudaEventRecord(event_, a_));
  step(a_, '2');
  SIM_OK(cudaStreamWaitEvent(b_, event_, 0));  // for 1, whatever the event is recorded for later
  SIM_OK(cudaEventRecord(event_, a_));
  step(b_, 'b');
  SIM_OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(ran, "1b");
  SIM_OK(cudaEventSynchronize(event_));
  EXPECT_EQ(ran, "1b2");
}

TEST_F(SimStreams, ACopyReadsItsSourceWhenItRuns) {
  be_lazy();
  float* pinned = nullptr;
  SIM_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof(float)));
  const DeviceArray<float> device(1);
  pinned[0] = 1.0f;
  SIM_OK(cudaMemcpyAsync(device.data(), pinned, sizeof(float), cudaMemcpyHostToDevice, a_));
  pinned[0] = 2.0f;  // too early
  SIM_OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(device.values()[0], 2.0f);
  SIM_OK(cudaFreeHost(pinned));
}

TEST_F(SimStreams, QueriesComeToTheirEnd) {
  for (const bool lazy : {false, true}) {
    gpu::sim::settings().lazy_streams = lazy;
    bool ran = false;
    EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);  // or the one of the last turn
    gpu::sim::enqueue(a_, [&ran] { ran = true; });
    SIM_OK(cudaEventRecord(event_, a_));
    if (lazy) {
      EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
    }
    while (cudaEventQuery(event_) == cudaErrorNotReady) {
    }
    EXPECT_TRUE(ran);
    EXPECT_EQ(cudaStreamQuery(a_), cudaSuccess);
  }
}

TEST_F(SimStreams, TimeBetweenEvents) {
  cudaEvent_t start = nullptr, end = nullptr;
  SIM_OK(cudaEventCreate(&start));
  SIM_OK(cudaEventCreate(&end));
  for (const bool lazy : {false, true}) {
    gpu::sim::settings().lazy_streams = lazy;
    SIM_OK(cudaEventRecord(start, a_));
    gpu::sim::enqueue(a_, [] { std::this_thread::sleep_for(5ms); });
    SIM_OK(cudaEventRecord(end, a_));
    SIM_OK(cudaEventSynchronize(end));
    float milliseconds = 0;
    SIM_OK(cudaEventElapsedTime(&milliseconds, start, end));
    EXPECT_GE(milliseconds, 5.0f);
    EXPECT_LT(milliseconds, 5000.0f);
  }
  float unused = 0;
  EXPECT_EQ(cudaEventElapsedTime(&unused, event_, end), cudaErrorInvalidResourceHandle);
  SIM_OK(cudaEventDestroy(start));
  SIM_OK(cudaEventDestroy(end));
}

TEST_F(SimStreams, HostFunctionsRunInOrder) {
  be_lazy();
  const DeviceArray<float> values(std::vector<float>(32, 1.0f));
  struct Seen {
    const float* from;
    float value;
  } seen = {values.data(), 0.0f};
  gpu::launch(scale, 1, 32, 0, a_, values.data(), 3.0f);
  SIM_OK(cudaLaunchHostFunc(
      a_,
      [](void* data) {
        auto* s = static_cast<Seen*>(data);
        s->value = s->from[31];
      },
      &seen));
  gpu::launch(scale, 1, 32, 0, a_, values.data(), 5.0f);
  SIM_OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(seen.value, 3.0f);
  EXPECT_EQ(values.values()[0], 15.0f);
}

// --- work that other processes take part in ---

TEST_F(SimStreams, TransfersOfTwoStreamsMayWaitForEachOther) {
  for (const bool lazy : {false, true}) {
    gpu::sim::settings().lazy_streams = lazy;
    bool a_began = false, b_began = false;
    gpu::sim::enqueue_polled(a_, [&] { return (a_began = true) && b_began; });
    gpu::sim::enqueue_polled(b_, [&] { return (b_began = true) && a_began; });
    SIM_OK(cudaStreamSynchronize(a_));
    SIM_OK(cudaStreamSynchronize(b_));
    EXPECT_TRUE(a_began && b_began);
  }
}

TEST_F(SimStreams, LaterWorkOfAStreamWaitsForATransfer) {
  for (const bool lazy : {false, true}) {
    gpu::sim::settings().lazy_streams = lazy;
    std::atomic<bool> arrived = false;
    float value = 0;
    const DeviceArray<float> data(std::vector<float>(32, 1.0f)), result(32);
    gpu::sim::enqueue_polled(a_, [&, to = data.data()] {
      if (arrived) to[0] = value;
      return arrived.load();
    });
    SIM_OK(cudaEventRecord(event_, a_));
    SIM_OK(cudaStreamWaitEvent(b_, event_, 0));
    gpu::launch(copy_values, 1, 32, 0, b_, data.data(), result.data());
    EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
    std::thread sender([&] {
      std::this_thread::sleep_for(2ms);
      value = 7.0f;
      arrived = true;
    });
    SIM_OK(cudaStreamSynchronize(b_));
    sender.join();
    EXPECT_EQ(result.values()[0], 7.0f);
  }
}

TEST_F(SimStreams, TransfersGoOnWhileTheHostIsElsewhere) {
  for (const bool lazy : {false, true}) {
    gpu::sim::settings().lazy_streams = lazy;
    std::atomic<bool> asked = false, served = false;
    gpu::sim::enqueue_polled(a_, [&] { return asked.load(); });
    gpu::sim::enqueue(a_, [&] { served = true; });
    asked = true;
    const auto limit = std::chrono::steady_clock::now() + 10s;
    while (!served && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(served);
  }
}

// --- failures ---

TEST_F(SimStreams, WhatWorkThrowsBecomesTheDevicesFault) {
  for (const bool lazy : {false, true}) {
    gpu::sim::settings().lazy_streams = lazy;
    bool ran = false;
    gpu::sim::enqueue(a_, [] { fail(ErrorKind::internal, "the plug was pulled"); });
    gpu::sim::enqueue(a_, [&] { ran = true; });
    EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorLaunchFailure);
    EXPECT_HOLDS(std::string(cudaGetErrorString(cudaErrorLaunchFailure)), "the plug was pulled");
    EXPECT_FALSE(ran);
    EXPECT_EQ(cudaStreamSynchronize(b_), cudaErrorLaunchFailure);
    gpu::sim::clear_faults();
    SIM_OK(cudaStreamSynchronize(a_));
  }
}

TEST_F(SimStreams, StreamsThatDoNotLiveAreRefused) {
  cudaStream_t gone = nullptr;
  SIM_OK(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking));
  SIM_OK(cudaStreamDestroy(gone));
  EXPECT_EQ(cudaStreamSynchronize(gone), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event_, gone), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamCreateWithFlags(&gone, cudaStreamDefault), cudaErrorNotSupported);
}

}  // namespace
}  // namespace fathom::test
