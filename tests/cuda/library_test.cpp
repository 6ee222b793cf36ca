// The library for CUDA on a machine without a GPU, or with its GPUs hidden: every symbol that it
// uses exists, and it says why there is nothing to run on.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>

#include "kernels/backend.h"

namespace fathom::gpu {
namespace {

TEST(CudaLibrary, LoadsWholeAndSaysThatThereIsNoDevice) {
  void* const library = dlopen(FATHOM_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto probe =
      reinterpret_cast<decltype(&fathom_probe_devices)>(dlsym(library, "fathom_probe_devices"));
  ASSERT_NE(probe, nullptr) << dlerror();
  char why[512] = "";
  EXPECT_EQ(probe(why, sizeof why), 0);
  EXPECT_NE(std::string(why), "");
  // Never closed: CUDA's libraries may have started threads.
}

}  // namespace
}  // namespace fathom::gpu
