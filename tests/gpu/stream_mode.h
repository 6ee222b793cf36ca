#pragma once

#include <gtest/gtest.h>
#include <string>

#include "gpu/sim/settings.h"

namespace fathom::gpu::test {

/// A test that runs once with eager and once with lazy streams (gpu/sim/streams.h).
class StreamModes : public ::testing::TestWithParam<bool> {
 protected:
  StreamModes() : before_(sim::settings().lazy_streams) { sim::settings().lazy_streams = lazy(); }
  ~StreamModes() override { sim::settings().lazy_streams = before_; }

  static bool lazy() { return GetParam(); }

 private:
  bool before_;
};

inline const auto kStreamModes = ::testing::Bool();

inline std::string stream_mode_name(const ::testing::TestParamInfo<bool>& mode) {
  return mode.param ? "lazy" : "eager";
}

}  // namespace fathom::gpu::test
