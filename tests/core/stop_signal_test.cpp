#include "core/stop_signal.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "kernels/backend.h"
#include "kernels/gemm.h"

namespace fathom {
namespace {

bool blocked_here(int signal) {
  sigset_t mask;
  EXPECT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &mask), 0);
  return sigismember(&mask, signal) == 1;
}

TEST(StopSignal, IsTakenByNoThreadThatComputes) {
  catch_stop_signals();
  catch_stop_signals();
  for (const int signal : {SIGUSR1, SIGTERM}) {
    EXPECT_TRUE(blocked_here(signal));
    std::thread([&] { EXPECT_TRUE(blocked_here(signal)); }).join();
  }
  for (const int signal : {SIGTERM, SIGUSR1}) {
    ASSERT_EQ(::kill(::getpid(), signal), 0);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (stop_signal() != signal && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(stop_signal(), signal);
  }
}

// The frame of a handler on a thread within a matrix product would land in its data, or in the
// heap.
TEST(StopSignal, LeavesMatrixProductsAlone) {
  catch_stop_signals();
  const auto device = kernels::make_device({.limit_bytes = std::size_t{16} << 20});
  constexpr std::int64_t kSize = 192;
  const Tensor a = Tensor::from_host(*device, {kSize, kSize}, std::vector<float>(kSize * kSize, 1));
  const Tensor c = Tensor::empty(*device, {kSize, kSize});
  std::atomic<bool> done{false};
  std::thread sender([&] {
    while (!done) {
      ::kill(::getpid(), SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  for (int i = 0; i < 400; ++i) kernels::gemm(a, kernels::Trans::no, a, kernels::Trans::yes, c);
  done = true;
  sender.join();
  for (const float value : to_host(c)) ASSERT_EQ(value, static_cast<float>(kSize));
}

}  // namespace
}  // namespace fathom
