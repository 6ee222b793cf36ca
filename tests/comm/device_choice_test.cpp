#include "comm/device_choice.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace fathom::comm {
namespace {

using fathom::testing::expect_error;
using Ranks = std::vector<RankDevices>;

const std::vector<std::string> kTwo = {"0000:17:00.0", "0000:65:00.0"};

TEST(DeviceChoice, RanksOfANodeTakeItsDevicesInTheirOrder) {
  const Ranks ranks = {{"n0", 0, kTwo}, {"n0", 0, kTwo}, {"n1", 2, kTwo}, {"n1", 2, kTwo}};
  EXPECT_EQ(assign_devices(ranks), (std::vector{0, 1, 0, 1}));
  // Launched round robin over the nodes.
  const Ranks round_robin = {{"n0", 0, kTwo}, {"n1", 1, kTwo}, {"n0", 0, kTwo}, {"n1", 1, kTwo}};
  EXPECT_EQ(assign_devices(round_robin), (std::vector{0, 0, 1, 1}));
}

TEST(DeviceChoice, ARankTakesTheOnlyDeviceThatItWasGiven) {
  const Ranks ranks = {{"n0", 0, {kTwo[0]}}, {"n0", 0, {kTwo[1]}}};
  EXPECT_EQ(assign_devices(ranks), (std::vector{0, 0}));
}

TEST(DeviceChoice, ARankWithoutDevicesIsNamed) {
  expect_error(
      ErrorKind::config,
      [] {
        assign_devices({{"n0", 0, kTwo}, {"n1", 1, {}}});
      },
      "rank 1 on n1 has no GPU;", "run.device=cpu");
  expect_error(
      ErrorKind::config,
      [] {
        assign_devices({{"n0", 0, {}, "GPU 0 (0000:17:00.0) has compute capability 7.5"}});
      },
      "rank 0 on n0 has no GPU that it can use (GPU 0 (0000:17:00.0) has compute capability 7.5)");
}

TEST(BackendChoice, RanksThatDifferAreNamed) {
  const RankBackend gpu{"n0", "cuda", ""}, cpu{"n1", "cpu", "no NVIDIA driver"};
  EXPECT_NO_THROW(check_backends({gpu, gpu}));
  EXPECT_NO_THROW(check_backends({cpu}));
  expect_error(
      ErrorKind::config,
      [&] {
        check_backends({gpu, gpu, cpu, cpu, cpu, gpu});
      },
      "ranks 0-1,5 on n0: cuda, ranks 2-4 on n1: cpu (no NVIDIA driver)", "run.device=cpu");
}

TEST(DeviceChoice, MoreRanksThanDevicesAreRefused) {
  expect_error(
      ErrorKind::config,
      [] {
        assign_devices({{"n0", 0, kTwo}, {"n0", 0, kTwo}, {"n0", 0, kTwo}});
      },
      "n0 has 3 ranks but only 2 GPUs", "--gpus-per-node");
}

TEST(DeviceChoice, TwoRanksOnOneDeviceAreRefused) {
  expect_error(
      ErrorKind::config,
      [] {
        assign_devices({{"n0", 0, {kTwo[0]}}, {"n0", 0, {kTwo[0]}}});
      },
      "ranks 0 and 1 on n0 would share GPU 0000:17:00.0");
  // The same bus id on another machine is another device, even where two have one name.
  EXPECT_EQ(assign_devices({{"n", 0, {kTwo[0]}}, {"n", 1, {kTwo[0]}}}), (std::vector{0, 0}));
}

}  // namespace
}  // namespace fathom::comm
