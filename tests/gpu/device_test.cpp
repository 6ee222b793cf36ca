#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "core/tensor.h"
#include "gpu/gpu_device.h"
#include "gpu/sim/settings.h"
#include "gpu/sim/streams.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/peak.h"
#include "stream_mode.h"
#include "tests/support/expect_error.h"

namespace fathom::gpu {
namespace {

using testing::expect_error;

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::unique_ptr<Device> make_device(std::size_t limit_bytes = 16 * kMiB) {
  return kernels::make_device({.limit_bytes = limit_bytes});
}

class GpuDeviceTest : public test::StreamModes {};

// What a training step does: uploads, kernels, memory that is freed while its kernels are still
// queued and is handed out again at once.
TEST_P(GpuDeviceTest, ReusesMemoryInTheOrderOfTheStream) {
  const auto device = make_device(2 * kMiB);
  const Tensor total = Tensor::zeros(*device, {1 << 18});
  std::vector<float> values(1 << 18);
  const void* place = nullptr;
  for (int step = 1; step <= 5; ++step) {
    std::iota(values.begin(), values.end(), static_cast<float>(step));
    const Tensor part =
        Tensor::from_host(*device, {1 << 18}, values);  // fits once beside the total
    if (place == nullptr) place = part.ptr<void>();
    ASSERT_EQ(part.ptr<void>(), place);
    kernels::accumulate(part, total);
  }
  EXPECT_EQ(device->host_waits(), 0);
  const std::vector<float> sums = to_host(total);
  for (std::size_t i = 0; i < sums.size(); i += 1000)
    ASSERT_EQ(sums[i], 15.0f + 5.0f * static_cast<float>(i));
}

TEST_P(GpuDeviceTest, CountsTheWaitsOfTheHost) {
  const auto device = make_device();
  const Tensor x = Tensor::from_host(*device, {3}, std::vector<float>{1, 2, 3});
  kernels::scale(x, 2.0f);
  EXPECT_EQ(device->host_waits(), 0);
  EXPECT_EQ(to_host(x), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(device->host_waits(), 1);
  device->synchronize();
  EXPECT_EQ(device->host_waits(), 2);
}

TEST_P(GpuDeviceTest, HandsOutMemoryFullOfNaN) {
  const auto device = make_device();
  for (int time = 0; time < 2; ++time) {
    const Tensor x = Tensor::empty(*device, {1000});
    for (const float value : to_host(x)) ASSERT_TRUE(std::isnan(value));
    kernels::fill(x, 1.0f);  // what the next one must not find
  }
}

TEST_P(GpuDeviceTest, AllocatesAligned) {
  const auto device = make_device();
  for (const std::size_t bytes : {1u, 100u, 257u}) {
    void* memory = device->allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
    EXPECT_TRUE(device->owns(memory));
  }
  EXPECT_FALSE(device->owns(device.get()));
}

// A collective whose peer has gone keeps its stream busy for ever.
TEST_P(GpuDeviceTest, AWaitEndsWhereACheckThrows) {
  const auto device = make_device();
  GpuDevice& gpu = gpu_device(*device);
  bool aborted = false;
  sim::enqueue_polled(gpu.stream(), [&] { return aborted; });
  bool waited = false;
  const int id = gpu.add_wait_check([&] {
    waited = gpu.waiting();
    fail(ErrorKind::comm, "rank 3 has gone");
  });
  EXPECT_FALSE(gpu.waiting());
  expect_error(
      ErrorKind::comm, [&] { device->synchronize(); }, "rank 3 has gone");
  EXPECT_TRUE(waited);
  EXPECT_FALSE(gpu.waiting());
  gpu.remove_wait_check(id);
  aborted = true;
  device->synchronize();
}

INSTANTIATE_TEST_SUITE_P(Streams, GpuDeviceTest, test::kStreamModes, test::stream_mode_name);

TEST(GpuDeviceErrors, SayWhatDoesNotFit) {
  const auto device = make_device(8 * kMiB);
  const Tensor x = Tensor::empty(*device, {5 << 18});
  expect_error(
      ErrorKind::config, [&] { Tensor::empty(*device, {4 << 18}); }, "a tensor of 4 MiB",
      "5 MiB in use", "limit 8 MiB", "batch.micro_batch", "memory.recompute", "grid.pp");
}

TEST(GpuDeviceErrors, SayWhatTheDeviceHas) {
  std::size_t free = 0, total = 0;
  FATHOM_CUDA(cudaMemGetInfo(&free, &total));
  expect_error(
      ErrorKind::config, [&] { make_device(total + 3 * kMiB); },
      str("asks for ", (total + 3 * kMiB) / kMiB, " MiB"), str(" of ", total / kMiB, " MiB"),
      kernels::device_identity(0), "run.memory_limit_gib", "batch.micro_batch");
}

TEST(GpuDeviceErrors, LeaveAReserveWhereThereIsNoLimit) {
  std::size_t total = 0, free_before = 0, free_after = 0;
  FATHOM_CUDA(cudaMemGetInfo(&free_before, &total));
  {
    const auto device = make_device(0);
    FATHOM_CUDA(cudaMemGetInfo(&free_after, &total));
    EXPECT_GE(free_after, std::size_t{1} << 30);
    EXPECT_GE(device->memory().limit + free_after + 64 * kMiB, free_before);
    // Whoever comes second finds nothing.
    expect_error(
        ErrorKind::config, [&] { make_device(0); }, "NCCL", " MiB free of ");
  }
  FATHOM_CUDA(cudaMemGetInfo(&free_after, &total));
  EXPECT_EQ(free_after, free_before);
}

TEST(GpuDeviceErrors, LeaveTheReserveBesideALimitToo) {
  std::size_t free = 0, total = 0;
  FATHOM_CUDA(cudaMemGetInfo(&free, &total));
  const std::size_t most = free - 512 * kMiB;
  expect_error(
      ErrorKind::config, [&] { make_device(most); },
      str("asks for ", most / kMiB, " MiB, and NCCL"), str(free / kMiB, " MiB free of "));
  // Who meets nobody needs nothing for NCCL.
  const auto device = kernels::make_device({.limit_bytes = most, .alone = true});
  EXPECT_EQ(device->memory().limit, most);
}

// Of the tiles in attention_tiles.cuh: 64 rows of 68 floats four and a half times for heads of 64,
// of 132 for heads of 128.
TEST(GpuDeviceErrors, NameHeadsThatTheDeviceHasNoRoomFor) {
  const auto device = make_device();
  const int before = sim::settings().capability;
  sim::settings().capability = 86;
  EXPECT_NO_THROW(kernels::require_attention(*device, 64, true));
  EXPECT_NO_THROW(kernels::require_attention(*device, 128, false));
  expect_error(
      ErrorKind::config, [&] { kernels::require_attention(*device, 128, true); }, "101376 bytes",
      "training a model with attention heads of 128", "run.device=cpu");
  sim::settings().capability = before;
  EXPECT_NO_THROW(kernels::require_attention(*device, 256, true));
  expect_error(
      ErrorKind::config, [&] { kernels::require_attention(*device, 257, false); },
      "heads have 257 values", "256 at most");
}

TEST(GpuDeviceErrors, NameADeviceThatTheKernelsAreNotFor) {
  const int before = sim::settings().capability;
  sim::settings().capability = 75;
  char why[256] = "";
  EXPECT_EQ(fathom_probe_devices(why, sizeof why), 0);
  EXPECT_NE(std::string(why).find("GPU 1 (0000:11:00.0) has compute capability 7.5"),
            std::string::npos)
      << why;
  expect_error(
      ErrorKind::config, [&] { make_device(); }, "capability 7.5", "8.0 (A100) and above");
  sim::settings().capability = before;
  EXPECT_GE(fathom_probe_devices(why, sizeof why), 2);
  EXPECT_STREQ(why, "");
}

TEST(GpuDeviceErrors, NameTheDeviceThatThereIsNot) {
  const int count = kernels::device_count();
  expect_error(
      ErrorKind::config, [&] { kernels::make_device({.index = count}); },
      str("there is no GPU ", count), "CUDA_VISIBLE_DEVICES");
}

TEST(GpuDeviceErrors, NameTheCallAndItsReason) {
  expect_error(
      ErrorKind::internal, [] { FATHOM_CUDA(cudaErrorLaunchFailure); }, "device_test.cpp",
      "cudaErrorLaunchFailure", "enqueued before");
  expect_error(
      ErrorKind::config, [] { FATHOM_CUDA(cudaErrorMemoryAllocation); },
      "cudaErrorMemoryAllocation", "the GPU has ", " MiB free of ", "batch.micro_batch");
}

TEST(GpuDeviceErrors, RefuseADeviceOfTheHost) {
  const auto host = make_cpu_device(kMiB);
  const Tensor x = Tensor::zeros(*host, {4});
  expect_error(
      ErrorKind::internal, [&] { kernels::fill(x, 1.0f); }, "kernels::make_device()");
}

TEST(GpuDevicePeak, IsMeasured) {
  for (const auto precision : {kernels::Precision::f32, kernels::Precision::bf16}) {
    const auto device = kernels::make_device({.limit_bytes = 64 * kMiB, .precision = precision});
    const double gflops = kernels::measure_gemm_peak_gflops(*device);
    const double gb_per_s = kernels::measure_read_bandwidth(*device);
    EXPECT_TRUE(gflops > 0.01 && gflops < 1e7) << gflops;
    EXPECT_TRUE(gb_per_s > 0.001 && gb_per_s < 1e5) << gb_per_s;
    EXPECT_EQ(device->memory().in_use, 0u);
  }
}

TEST(GpuDeviceIdentity, SaysWhatItRunsOn) {
  const std::string& details = kernels::backend().details;
  for (const char* part : {"CUDA ", "driver of CUDA ", "cuBLASLt ", "NCCL 2."})
    EXPECT_NE(details.find(part), std::string::npos) << details;
  char versions[256] = "";
  fathom_backend_versions(versions, sizeof versions);
  EXPECT_TRUE(details.ends_with(versions)) << versions;
}

TEST(GpuDeviceIdentity, TellsDevicesApart) {
  ASSERT_GE(kernels::device_count(), 2);
  EXPECT_NE(kernels::device_identity(0), kernels::device_identity(1));
  EXPECT_TRUE(kernels::backend().owns_memory);
}

}  // namespace
}  // namespace fathom::gpu
