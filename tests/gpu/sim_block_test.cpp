// Threads of a block on fibers: barriers, exchanges, atomics, shared memory; and the mistakes in
// kernels that the stand-in is there to catch, each planted.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim_fixture.h"

// Kernels have linkage, so that messages can name them.
namespace fathom::test {

using SimBlock = SimTest;
using Ints = std::vector<int>;

Ints count_up(int n) {
  Ints values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

template <typename... Parameters, typename... Arguments>
void run(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, Arguments... arguments) {
  gpu::launch(kernel, blocks, threads, 0, nullptr, arguments...);
}

// --- what kernels may rely on ---

__global__ void write_place(int* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] =
      static_cast<int>(thread + 1000 * block);
}

TEST_F(SimBlock, EveryThreadOfEveryBlockRunsOnce) {
  in_all_orders([&](const std::string& orders) {
    SCOPED_TRACE(orders);
    const DeviceArray<int> out(12 * 64);
    run(write_place, {3, 2, 2}, {8, 4, 2}, out.data());
    Ints expected;
    for (int block = 0; block < 12; ++block)
      for (int thread = 0; thread < 64; ++thread) expected.push_back(thread + 1000 * block);
    EXPECT_EQ(out.values(), expected);
  });
}

__global__ void take_turns(int* turns, int* count) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  turns[atomicAdd(count, 1)] = static_cast<int>(thread);
}

TEST_F(SimBlock, OrdersAreWhatTheySay) {
  using gpu::sim::Order;
  gpu::sim::Settings& settings = gpu::sim::settings();
  const auto turns = [&](Order threads, Order blocks) {
    settings.threads = threads;
    settings.blocks = blocks;
    const DeviceArray<int> order(4 * 64), count(Ints{0});
    run(take_turns, 4, 64u, order.data(), count.data());
    return order.values();
  };
  Ints expected = count_up(256);
  EXPECT_EQ(turns(Order::forward, Order::forward), expected);
  std::reverse(expected.begin(), expected.end());
  EXPECT_EQ(turns(Order::reverse, Order::reverse), expected);

  Ints shuffled = turns(Order::random, Order::random);
  EXPECT_EQ(turns(Order::random, Order::random), shuffled);  // given the seeds
  settings.thread_seed = 2;
  EXPECT_NE(turns(Order::random, Order::random), shuffled);
  settings.thread_seed = 1;
  settings.block_seed = 2;
  EXPECT_NE(turns(Order::random, Order::random), shuffled);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, count_up(256));
}

template <bool kBarrier>
__global__ void reverse_block(const int* in, int* out) {
  FATHOM_SHARED(int, held, 1024);
  const unsigned base = blockIdx.x * blockDim.x;
  held[threadIdx.x] = in[base + threadIdx.x];
  if constexpr (kBarrier) __syncthreads();
  out[base + threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

Ints reversed_blocks(int blocks, int threads) {
  Ints values = count_up(blocks * threads);
  for (int b = 0; b < blocks; ++b)
    std::reverse(values.begin() + b * threads, values.begin() + (b + 1) * threads);
  return values;
}

TEST_F(SimBlock, ABarrierMakesWritesVisible) {
  for (const int threads : {32, 96, 1024}) {
    in_all_orders([&](const std::string& orders) {
      SCOPED_TRACE(orders);
      const DeviceArray<int> in(count_up(3 * threads)), out(in.values().size());
      run(reverse_block<true>, 3, static_cast<unsigned>(threads), in.data(), out.data());
      EXPECT_EQ(out.values(), reversed_blocks(3, threads));
    });
  }
}

TEST_F(SimBlock, ARemovedBarrierIsCaughtInEveryOrder) {
  in_all_orders([&](const std::string& orders) {
    SCOPED_TRACE(orders);
    const DeviceArray<int> in(count_up(3 * 64)), out(3 * 64);
    run(reverse_block<false>, 3, 64u, in.data(), out.data());
    EXPECT_NE(out.values(), reversed_blocks(3, 64));
  });
}

__global__ void exchange(int* out) {
  const unsigned t = threadIdx.x;
  const int mine = static_cast<int>(100 + t);
  int* row = out + 9 * t;
  row[0] = __shfl_sync(0xffffffffu, mine, 5);
  row[1] = __shfl_up_sync(0xffffffffu, mine, 3);
  row[2] = __shfl_down_sync(0xffffffffu, mine, 3);
  row[3] = __shfl_xor_sync(0xffffffffu, mine, 8);
  row[4] = __shfl_sync(0xffffffffu, mine, 5, 8);
  row[5] = __shfl_down_sync(0xffffffffu, mine, 3, 8);
  row[6] = static_cast<int>(__ballot_sync(0xffffffffu, t % 2 == 0));
  row[7] = __any_sync(0xffffffffu, t == 33);
  row[8] = __all_sync(0xffffffffu, t < 32);
}

TEST_F(SimBlock, ExchangesWithinAWarp) {
  in_all_orders([&](const std::string& orders) {
    SCOPED_TRACE(orders);
    const DeviceArray<int> out(64 * 9);
    run(exchange, 1, 64u, out.data());
    const Ints result = out.values();
    for (int t = 0; t < 64; ++t) {
      const int lane = t % 32, warp = 100 + t - lane, segment = lane / 8 * 8;
      const Ints expected = {warp + 5,
                             warp + (lane < 3 ? lane : lane - 3),
                             warp + (lane > 28 ? lane : lane + 3),
                             warp + (lane ^ 8),
                             warp + segment + 5,
                             warp + (lane % 8 > 4 ? lane : lane + 3),
                             0x55555555,
                             t >= 32,
                             t < 32};
      EXPECT_EQ(Ints(result.begin() + 9 * t, result.begin() + 9 * (t + 1)), expected) << t;
    }
  });
}

template <typename T>
__global__ void add_up(T* sum, int* largest, int* slots) {
  const int t = static_cast<int>(threadIdx.x);
  atomicAdd(sum, T(1));
  atomicMax(largest, t * 7 % 64);
  for (int slot = 0; atomicCAS(&slots[slot], -1, t) != -1; ++slot) {
  }
}

template <typename T>
void expect_atomics() {
  const DeviceArray<T> sum(std::vector<T>{T(5)});
  const DeviceArray<int> largest(Ints{-3}), slots(Ints(128, -1));
  run(add_up<T>, 2, 64u, sum.data(), largest.data(), slots.data());
  EXPECT_EQ(sum.values()[0], T(133));
  EXPECT_EQ(largest.values()[0], 63);
  Ints owners = slots.values();
  std::sort(owners.begin(), owners.end());
  Ints expected;
  for (int t = 0; t < 64; ++t) expected.insert(expected.end(), {t, t});
  EXPECT_EQ(owners, expected);
}

TEST_F(SimBlock, Atomics) {
  in_all_orders([&](const std::string& orders) {
    SCOPED_TRACE(orders);
    expect_atomics<float>();
    expect_atomics<double>();
    expect_atomics<int>();
    expect_atomics<unsigned>();
    expect_atomics<unsigned long long>();
  });
}

// Ping-pong between a barrier and exchanges: two sets of words must be enough.
__global__ void many_exchanges(float* out, int rounds) {
  float value = static_cast<float>(threadIdx.x);
  for (int i = 0; i < rounds; ++i) {
    value = __shfl_xor_sync(0xffffffffu, value, 1 << i % 5);
    if (i % 3 == 0) __syncthreads();
    if (i % 4 == 0) __syncwarp();
  }
  out[threadIdx.x] = value;
}

TEST_F(SimBlock, ManyExchangesInARow) {
  in_all_orders([&](const std::string& orders) {
    SCOPED_TRACE(orders);
    const DeviceArray<float> out(96);
    run(many_exchanges, 1, 96u, out.data(), 203);
    // 203 = 40 * 5 + 3 exchanges: bits 0, 1 and 2 are flipped 41 times, 3 and 4 40 times.
    const std::vector<float> result = out.values();
    for (unsigned t = 0; t < 96; ++t) EXPECT_EQ(result[t], static_cast<float>(t ^ 7u));
  });
}

// --- shared memory ---

__global__ void read_unwritten(float* out) {
  FATHOM_SHARED(float, first, 32);
  FATHOM_SHARED(double, second, 32);
  FATHOM_DYNAMIC_SHARED(float, third);
  out[blockIdx.x * 32 + threadIdx.x] =
      static_cast<float>(second[threadIdx.x]) + first[threadIdx.x] * third[threadIdx.x];
  second[threadIdx.x] = first[threadIdx.x] = third[threadIdx.x] = 1.0f;
}

TEST_F(SimBlock, SharedMemoryIsPoisonedInEachBlock) {
  const DeviceArray<float> out(std::vector<float>(96, 0.0f));
  gpu::launch(read_unwritten, 3, 32, 32 * sizeof(float), nullptr, out.data());
  for (const float value : out.values()) EXPECT_TRUE(std::isnan(value));
}

__global__ void use_too_much(int* out) {
  FATHOM_SHARED(int, a, 6 << 10);
  FATHOM_SHARED(int, b, (6 << 10) + 1);
  out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}

__global__ void use_dynamic(int* out) {
  FATHOM_DYNAMIC_SHARED(int, held);
  held[threadIdx.x] = 3;
  out[threadIdx.x] = held[threadIdx.x];
}

TEST_F(SimBlock, TooMuchSharedMemoryIsRefused) {
  const DeviceArray<int> out(32);
  std::string reason = error_of([&] { run(use_too_much, 1, 32u, out.data()); });
  EXPECT_HOLDS(reason, "49156 bytes of static shared memory");
  EXPECT_HOLDS(reason, "use_too_much");
  gpu::sim::clear_faults();

  gpu::launch(use_dynamic, 1, 32, 227 << 10, nullptr, out.data());  // opts in
  EXPECT_EQ(out.values(), Ints(32, 3));
  reason = error_of([&] { gpu::launch(use_dynamic, 1, 32, (227 << 10) + 1, nullptr, out.data()); });
  EXPECT_HOLDS(reason, "232449 bytes of shared memory");
  reason = error_of([&] { gpu::launch(use_dynamic, 1, 32, 0, nullptr, out.data()); });
  EXPECT_HOLDS(reason, "launched with none");
}

TEST_F(SimBlock, ImpossibleShapesAreRefused) {
  const DeviceArray<int> out(32);
  const auto refusal = [&](dim3 blocks, dim3 threads) {
    return error_of([&] { run(write_place, blocks, threads, out.data()); });
  };
  EXPECT_HOLDS(refusal(1, 1056), "1056 threads a block");
  EXPECT_HOLDS(refusal(1, 0), "0 threads a block");
  EXPECT_HOLDS(refusal(1, 48), "whole warps");
  EXPECT_HOLDS(refusal({1, 65536}, 32), "1 x 65536 x 1 blocks");
  EXPECT_HOLDS(refusal({0, 1}, 32), "0 x 1 x 1 blocks");
}

// --- planted faults of threads that part ways ---

constexpr int kDivergenceLine = __LINE__ + 5;
__global__ void diverge(int* out) {
  // Two barriers in one place for the compiler; two places for the hardware.
  out[threadIdx.x] = 0;
  if (threadIdx.x < 40)
    __syncthreads();
  else
    __syncthreads();
}

TEST_F(SimBlock, BarrierDivergenceIsCaught) {
  in_all_orders([&](const std::string& orders) {
    SCOPED_TRACE(orders);
    const DeviceArray<int> out(64);
    const std::string reason = error_of([&] { run(diverge, 2, 64u, out.data()); });
    EXPECT_HOLDS(reason, "barrier divergence");
    EXPECT_HOLDS(reason, "block (");
    EXPECT_HOLDS(reason, "thread (");
    EXPECT_HOLDS(reason, "sim_block_test.cpp:" + std::to_string(kDivergenceLine));
    EXPECT_HOLDS(reason, "sim_block_test.cpp:" + std::to_string(kDivergenceLine + 2));
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);  // it stays
    EXPECT_HOLDS(std::string(cudaGetErrorString(cudaErrorLaunchFailure)), "barrier divergence");
    EXPECT_HOLDS(error_of([&] { run(write_place, 1, 32u, out.data()); }), "barrier divergence");
    gpu::sim::clear_faults();
  });
}

__global__ void leave_before_barrier(int* out) {
  if (threadIdx.x == 37) return;
  __syncthreads();
  out[threadIdx.x] = 0;
}

TEST_F(SimBlock, ABarrierAfterReturnedThreadsIsCaught) {
  in_all_orders([&](const std::string& orders) {
    SCOPED_TRACE(orders);
    const DeviceArray<int> out(64);
    const std::string reason = error_of([&] { run(leave_before_barrier, 1, 64u, out.data()); });
    EXPECT_HOLDS(reason, "thread (37, 0, 0) has returned");
    gpu::sim::clear_faults();
  });
}

__global__ void leave_before_shuffle(int* out) {
  if (threadIdx.x >= 48) return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
}

TEST_F(SimBlock, AShuffleWithReturnedLanesIsCaught) {
  in_all_orders([&](const std::string& orders) {
    SCOPED_TRACE(orders);
    const DeviceArray<int> out(64);
    const std::string reason = error_of([&] { run(leave_before_shuffle, 1, 64u, out.data()); });
    EXPECT_HOLDS(reason, "a warp waits for lanes that never come");
    EXPECT_HOLDS(reason, "has returned");
    gpu::sim::clear_faults();
  });
}

__global__ void shuffle_at_two_places(int* out) {
  if (threadIdx.x % 2 == 0)
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
  else
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 2, 1);
}

__global__ void shuffle_and_barrier(int* out) {
  if (threadIdx.x < 8)
    __syncthreads();
  else
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 2, 1);
}

__global__ void shuffle_with_half_a_mask(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1, 1);
}

TEST_F(SimBlock, LanesThatPartWaysAreCaught) {
  const DeviceArray<int> out(64);
  const auto reason_of = [&](void (*kernel)(int*)) {
    const std::string reason = error_of([&] { run(kernel, 1, 64u, out.data()); });
    gpu::sim::clear_faults();
    return reason;
  };
  EXPECT_HOLDS(reason_of(shuffle_at_two_places), "divergence within a warp");
  EXPECT_HOLDS(reason_of(shuffle_and_barrier), "never come");
  EXPECT_HOLDS(reason_of(shuffle_with_half_a_mask), "does not name all lanes");
}

}  // namespace fathom::test
