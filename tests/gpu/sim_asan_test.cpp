// What only the address sanitizer sees: kernels that leave what they were given by less than a
// page.

#include "sim_fixture.h"

// Kernels have linkage, so that messages can name them.
namespace fathom::test {

using SimAddressDeath = SimTest;

__global__ void write_past_end(int* out, int n) {
  out[threadIdx.x + static_cast<unsigned>(n)] = 0;
}

__global__ void write_past_shared(int* out) {
  FATHOM_SHARED(int, held, 32);
  held[threadIdx.x + 1] = 1;
  out[threadIdx.x] = held[threadIdx.x];
}

__global__ void write_past_dynamic(int* out, int n) {
  FATHOM_DYNAMIC_SHARED(int, held);
  held[n] = 1;
  out[threadIdx.x] = held[0];
}

TEST_F(SimAddressDeath, PastAnAllocation) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const DeviceArray<int> out(32);
  EXPECT_DEATH(gpu::launch(write_past_end, 1, 32, 0, nullptr, out.data(), 1), "write_past_end");
}

TEST_F(SimAddressDeath, PastSharedMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const DeviceArray<int> out(32);
  EXPECT_DEATH(gpu::launch(write_past_shared, 1, 32, 0, nullptr, out.data()), "write_past_shared");
  EXPECT_DEATH(gpu::launch(write_past_dynamic, 1, 32, 128, nullptr, out.data(), 32),
               "write_past_dynamic");
}

}  // namespace fathom::test
