// Part of each test that runs on several kernel libraries: a run that was meant for one of them
// must not pass on another.

#include <cstdlib>
#include <gtest/gtest.h>

#include "kernels/backend.h"

namespace fathom::test {
namespace {

class ExpectedBackend : public testing::Environment {
 public:
  void SetUp() override {
    const char* expected = std::getenv("FATHOM_TEST_BACKEND");
    if (expected != nullptr) {
      ASSERT_EQ(kernels::backend().name, expected);
    }
  }
};

// GoogleTest owns it.
[[maybe_unused]] const auto* const environment =
    testing::AddGlobalTestEnvironment(new ExpectedBackend);

}  // namespace
}  // namespace fathom::test
