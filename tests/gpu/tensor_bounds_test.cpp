// On the library that the address sanitizer watches: a kernel that leaves a tensor's memory, or
// comes back to it when it has been freed, is caught although all of it lies in one block of the
// device.

#include <gtest/gtest.h>

#include "core/tensor.h"
#include "kernels/backend.h"
#include "kernels/rows.h"

namespace fathom::gpu {
namespace {

class TensorBoundsDeath : public ::testing::Test {
 protected:
  TensorBoundsDeath() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  void write(float* to, std::int64_t count) {
    kernels::for_each_element(
        *device_, count, FATHOM_BODY(std::int64_t i) { to[i] = 1.0f; });
  }

  std::unique_ptr<Device> device_ = kernels::make_device({.limit_bytes = std::size_t{1} << 20});
};

TEST_F(TensorBoundsDeath, PastItsEnd) {
  for (const std::int64_t size : {60, 64}) {  // a part, and all, of what sizes are rounded up to
    const Tensor x = Tensor::empty(*device_, {size}), beside = Tensor::empty(*device_, {size});
    write(x.ptr<float>(), size);
    EXPECT_DEATH(write(x.ptr<float>(), size + 1), "use-after-poison");
  }
}

TEST_F(TensorBoundsDeath, AfterItsEnd) {
  float* memory = nullptr;
  {
    const Tensor x = Tensor::empty(*device_, {64});
    memory = x.ptr<float>();
    write(memory, 64);
  }
  EXPECT_DEATH(write(memory, 64), "use-after-poison");
}

}  // namespace
}  // namespace fathom::gpu
