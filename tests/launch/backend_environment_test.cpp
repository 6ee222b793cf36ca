// What a run sets for CUDA before it first calls it.

#include <cstdlib>
#include <gtest/gtest.h>
#include <string>

#include "launch/backend_choice.h"

namespace fathom::launch {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

class CudaEnvironment : public ::testing::Test {
 protected:
  CudaEnvironment() { clear(); }
  ~CudaEnvironment() override { clear(); }

 private:
  static void clear() {
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    unsetenv("CUDA_MODULE_LOADING");
  }
};

TEST_F(CudaEnvironment, OneRankLoadsKernelsWhenTheyRun) {
  set_cuda_environment(1);
  EXPECT_EQ(variable("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  EXPECT_EQ(variable("CUDA_MODULE_LOADING"), "");
}

TEST_F(CudaEnvironment, RanksThatMeetLoadThemAtTheStart) {
  set_cuda_environment(2);
  EXPECT_EQ(variable("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  EXPECT_EQ(variable("CUDA_MODULE_LOADING"), "EAGER");
}

TEST_F(CudaEnvironment, WhatIsSetStays) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  set_cuda_environment(2);
  EXPECT_EQ(variable("CUDA_DEVICE_MAX_CONNECTIONS"), "8");
  EXPECT_EQ(variable("CUDA_MODULE_LOADING"), "LAZY");
}

TEST_F(CudaEnvironment, ABackendIsChosenWithIt) {
  choose_backend(kernels::DeviceKind::cpu);
  EXPECT_EQ(variable("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
}

}  // namespace
}  // namespace fathom::launch
