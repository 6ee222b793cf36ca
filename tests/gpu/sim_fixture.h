#pragma once

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "core/error.h"
#include "gpu/launch.h"
#include "gpu/sim/fault.h"
#include "gpu/sim/settings.h"

namespace fathom::test {

/// Every call of the runtime that a test does not expect to fail.
#define SIM_OK(call) ASSERT_EQ(call, cudaSuccess) << cudaGetErrorString(cudaPeekAtLastError())

/// Device memory with values that the host uploads and downloads.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    require(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)) == cudaSuccess,
            ErrorKind::internal, "cudaMalloc");
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    require(
        cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess,
        ErrorKind::internal, "upload");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  std::vector<T> values() const {
    std::vector<T> result(count_);
    require(cudaMemcpy(result.data(), data_, bytes(), cudaMemcpyDeviceToHost) == cudaSuccess,
            ErrorKind::internal, "download");
    return result;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

/// Starts and ends each test without a fault, on default settings.
class SimTest : public testing::Test {
 protected:
  SimTest() { gpu::sim::settings() = gpu::sim::Settings{}; }
  ~SimTest() override {
    gpu::sim::clear_faults();
    gpu::sim::settings() = gpu::sim::Settings{};
  }
};

/// The text of the Error that f throws; empty if it throws none.
template <typename F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

#define EXPECT_HOLDS(text, part)                  \
  EXPECT_NE((text).find(part), std::string::npos) \
      << "\"" << (text) << "\" lacks \"" << (part) << '"'

/// Runs f(name) under three orders of threads and three of blocks.
template <typename F>
void in_all_orders(F f) {
  using gpu::sim::Order;
  const char* const names[] = {"forward", "reverse", "random"};
  for (const Order threads : {Order::forward, Order::reverse, Order::random}) {
    for (const Order blocks : {Order::forward, Order::reverse, Order::random}) {
      gpu::sim::settings().threads = threads;
      gpu::sim::settings().blocks = blocks;
      f(std::string("threads ") + names[static_cast<int>(threads)] + ", blocks " +
        names[static_cast<int>(blocks)]);
    }
  }
}

}  // namespace fathom::test
