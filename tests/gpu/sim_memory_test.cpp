// Device memory of the stand-in: poison, bounds, kinds of copies, and pointers that a kernel must
// not get; mistakes are planted.

#include <cmath>
#include <cstring>

#include "gpu/sim/memory.h"
#include "sim_fixture.h"

// Kernels have linkage, so that messages can name them.
namespace fathom::test {

using SimMemory = SimTest;

__global__ void add_one(float* values, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) values[i] += 1.0f;
}

// As a kernel over rows takes what its body has captured.
template <typename Body>
__global__ void call_body(Body body) {
  body(static_cast<int>(threadIdx.x));
}

TEST_F(SimMemory, FreshMemoryIsNaN) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{3} << 20}) {
    const DeviceArray<float> array(count);
    for (const float value : array.values()) ASSERT_TRUE(std::isnan(value));
  }
  void* first = nullptr;
  SIM_OK(cudaMalloc(&first, 4096));
  SIM_OK(cudaMemset(first, 0, 4096));
  SIM_OK(cudaFree(first));
  const DeviceArray<float> again(1024);  // in the same place
  EXPECT_EQ(again.data(), first);
  EXPECT_TRUE(std::isnan(again.values()[0]));
}

TEST_F(SimMemory, CopiesAndKernels) {
  const DeviceArray<float> values(std::vector<float>(100, 2.0f)), other(100);
  gpu::launch(add_one, 2, 64, 0, nullptr, values.data(), 100);
  SIM_OK(cudaMemcpy(other.data(), values.data(), values.bytes(), cudaMemcpyDeviceToDevice));
  EXPECT_EQ(other.values(), std::vector<float>(100, 3.0f));
  // A block of 3 x 4 out of rows of 10.
  std::vector<float> corner(12);
  SIM_OK(cudaMemset(other.data(), 0, 40));
  SIM_OK(cudaMemcpy2DAsync(corner.data(), 16, other.data(), 40, 16, 3, cudaMemcpyDeviceToHost,
                           nullptr));
  SIM_OK(cudaDeviceSynchronize());
  EXPECT_EQ(corner, (std::vector<float>{0, 0, 0, 0, 3, 3, 3, 3, 3, 3, 3, 3}));
}

TEST_F(SimMemory, AFullDeviceRefuses) {
  std::size_t free = 0, total = 0;
  SIM_OK(cudaMemGetInfo(&free, &total));
  void* most = nullptr;
  void* more = nullptr;
  SIM_OK(cudaMalloc(&most, free - 4096));
  EXPECT_EQ(cudaMalloc(&more, 8192), cudaErrorMemoryAllocation);
  EXPECT_EQ(more, nullptr);
  EXPECT_HOLDS(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)), "8192 bytes, of 4096");
  SIM_OK(cudaFree(most));
  std::size_t after = 0;
  SIM_OK(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(after, free);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // unlike a fault, it goes
}

TEST_F(SimMemory, AWrongKindOfCopyIsCaught) {
  const DeviceArray<float> device(64);
  std::vector<float> host(64);
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, 256, kind, nullptr);
  };
  EXPECT_EQ(copy(host.data(), device.data(), cudaMemcpyHostToDevice),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_HOLDS(std::string(cudaGetErrorString(cudaErrorInvalidMemcpyDirection)),
               "is host memory, not a device's");
  EXPECT_EQ(copy(device.data(), device.data(), cudaMemcpyHostToDevice),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_HOLDS(std::string(cudaGetErrorString(cudaErrorInvalidMemcpyDirection)),
               "is device memory, not the host's");
  EXPECT_EQ(copy(device.data(), host.data(), cudaMemcpyDeviceToDevice),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(copy(host.data(), host.data(), cudaMemcpyDeviceToHost),
            cudaErrorInvalidMemcpyDirection);
  SIM_OK(copy(device.data(), host.data(), cudaMemcpyDefault));
  SIM_OK(copy(host.data(), device.data(), cudaMemcpyDefault));
}

TEST_F(SimMemory, CopiesPastTheirAllocationAreCaught) {
  const DeviceArray<float> device(64);
  std::vector<float> host(65);
  EXPECT_EQ(cudaMemcpy(device.data(), host.data(), 260, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_HOLDS(std::string(cudaGetErrorString(cudaErrorInvalidValue)),
               "4 bytes past its allocation of 256");
  EXPECT_EQ(cudaMemset(device.data() + 1, 0, 256), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host.data(), 0, 4), cudaErrorInvalidValue);
  void* freed = nullptr;
  SIM_OK(cudaMalloc(&freed, 4));
  SIM_OK(cudaFree(freed));
  EXPECT_EQ(cudaMemset(freed, 0, 4), cudaErrorInvalidValue);
  EXPECT_HOLDS(std::string(cudaGetErrorString(cudaErrorInvalidValue)), "not allocated (any more)");
  EXPECT_EQ(cudaFree(freed), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(host.data()), cudaErrorInvalidValue);
}

TEST_F(SimMemory, AHostPointerForAKernelIsCaught) {
  std::vector<float> host(64);
  float on_stack = 0;
  const auto reason_of = [](float* pointer) {
    return error_of([&] { gpu::launch(add_one, 1, 64, 0, nullptr, pointer, 1); });
  };
  EXPECT_HOLDS(reason_of(host.data()), "add_one");
  EXPECT_HOLDS(reason_of(host.data()), "argument 0");
  EXPECT_HOLDS(reason_of(host.data()), "host memory");
  EXPECT_HOLDS(reason_of(&on_stack), "host memory");
  EXPECT_EQ(host[0], 0.0f);         // it did not run
  SIM_OK(cudaDeviceSynchronize());  // and the device is well
}

TEST_F(SimMemory, AHostPointerInAClosureIsCaught) {
  const DeviceArray<float> device(64);
  std::vector<float> host(64, 5.0f);
  const auto adder = [&](float* to, const float* from) { return [=](int i) { to[i] = from[i]; }; };
  const auto launch = [&](auto body) {
    return error_of([&] { gpu::launch(call_body<decltype(body)>, 1, 64, 0, nullptr, body); });
  };
  EXPECT_HOLDS(launch(adder(device.data(), host.data())), "holds at byte 8 the pointer");
  EXPECT_HOLDS(launch(adder(host.data(), device.data())), "holds at byte 0 the pointer");
  EXPECT_EQ(launch(adder(device.data(), device.data())), "");
  EXPECT_EQ(launch([=](int) {}), "");
  // Neither numbers nor what lies between the members are taken for pointers.
  const bool flag = true;
  const double number = 1e300;
  const std::int64_t size = std::int64_t{1} << 45;
  float* const to = device.data();
  EXPECT_EQ(launch([=](int i) { to[i] = flag ? static_cast<float>(number > size) : 0.0f; }), "");
}

TEST_F(SimMemory, PointersToOtherDevicesAndFreedMemoryAreCaught) {
  SIM_OK(cudaSetDevice(1));
  float* elsewhere = nullptr;
  SIM_OK(cudaMalloc(reinterpret_cast<void**>(&elsewhere), 256));
  SIM_OK(cudaSetDevice(0));
  const auto reason_of = [](float* pointer) {
    return error_of([&] { gpu::launch(add_one, 1, 64, 0, nullptr, pointer, 0); });
  };
  EXPECT_HOLDS(reason_of(elsewhere), "memory of device 1 in a kernel of device 0");
  SIM_OK(cudaFree(elsewhere));
  EXPECT_HOLDS(reason_of(elsewhere), "not allocated (any more)");
  EXPECT_EQ(reason_of(nullptr), "");
}

TEST_F(SimMemory, KernelsMayUsePageLockedMemory) {
  float* pinned = nullptr;
  SIM_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), 256));
  EXPECT_TRUE(std::isnan(pinned[63]));
  pinned[0] = 1.0f;
  gpu::launch(add_one, 1, 64, 0, nullptr, pinned, 1);
  SIM_OK(cudaDeviceSynchronize());
  EXPECT_EQ(pinned[0], 2.0f);
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  SIM_OK(cudaFreeHost(pinned));
}

// --- what dies on a machine with real devices dies here ---

using SimMemoryDeath = SimTest;

TEST_F(SimMemoryDeath, TheHostTouchesProtectedDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  gpu::sim::settings().protect = true;
  const DeviceArray<float> device(std::vector<float>(64, 1.0f));
  gpu::launch(add_one, 1, 64, 0, nullptr, device.data(), 64);
  EXPECT_EQ(device.values(), std::vector<float>(64, 2.0f));
  EXPECT_DEATH(device.data()[0] = 1.0f, "");
}

TEST_F(SimMemoryDeath, AKernelTouchesFreedMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  float* freed = nullptr;
  SIM_OK(cudaMalloc(reinterpret_cast<void**>(&freed), 256));
  const DeviceArray<float*> table(std::vector<float*>{freed});
  SIM_OK(cudaFree(freed));
  float** const pointers = table.data();
  const auto body = [=](int i) { pointers[0][i] = 0.0f; };
  EXPECT_DEATH(gpu::launch(call_body<decltype(body)>, 1, 32, 0, nullptr, body), "");
}

}  // namespace fathom::test
