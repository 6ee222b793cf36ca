// The stand-in's settings as they are written in the environment.

#include <cstdlib>

#include "sim_fixture.h"

namespace fathom::test {
namespace {

using gpu::sim::Order;
using gpu::sim::Settings;
using gpu::sim::settings_of_environment;

class SimSettings : public SimTest {
 protected:
  SimSettings() { clear(); }
  ~SimSettings() override { clear(); }

  Settings with(const char* name, const char* value) {
    setenv(name, value, 1);
    return settings_of_environment();
  }
  std::string refusal(const char* name, const char* value) {
    const std::string reason = error_of([&] { with(name, value); });
    unsetenv(name);
    return reason;
  }

 private:
  static void clear() {
    for (const char* name : {"THREADS", "BLOCKS", "STREAMS", "RECORD", "PROTECT", "DEVICES",
                             "MEMORY", "CAPABILITY", "NCCL_FAILS"})
      unsetenv((std::string("FATHOM_SIM_") + name).c_str());
  }
};

TEST_F(SimSettings, AreReadFromTheEnvironment) {
  EXPECT_EQ(with("FATHOM_SIM_THREADS", "reverse").threads, Order::reverse);
  EXPECT_EQ(with("FATHOM_SIM_THREADS", "forward").threads, Order::forward);
  EXPECT_EQ(with("FATHOM_SIM_THREADS", "random").threads, Order::random);
  EXPECT_EQ(with("FATHOM_SIM_THREADS", "random:77").thread_seed, 77u);
  EXPECT_EQ(with("FATHOM_SIM_BLOCKS", "random:5").block_seed, 5u);
  EXPECT_TRUE(with("FATHOM_SIM_STREAMS", "lazy").lazy_streams);
  EXPECT_FALSE(with("FATHOM_SIM_STREAMS", "eager").lazy_streams);
  EXPECT_EQ(with("FATHOM_SIM_RECORD", "launches.txt").record, "launches.txt");
  EXPECT_TRUE(with("FATHOM_SIM_PROTECT", "1").protect);
  EXPECT_EQ(with("FATHOM_SIM_DEVICES", "0").devices, 0);
  EXPECT_EQ(with("FATHOM_SIM_MEMORY", "64").device_bytes, std::size_t{64} << 20);
  EXPECT_EQ(with("FATHOM_SIM_NCCL_FAILS", "7").nccl_fails, 7u);
}

// CUDA's guide, table of technical specifications by compute capability.
TEST_F(SimSettings, SharedMemoryFollowsTheCapability) {
  EXPECT_EQ(with("FATHOM_SIM_CAPABILITY", "75").shared_bytes(), 65536u);
  EXPECT_EQ(with("FATHOM_SIM_CAPABILITY", "80").shared_bytes(), 166912u);
  EXPECT_EQ(with("FATHOM_SIM_CAPABILITY", "86").shared_bytes(), 101376u);
  EXPECT_EQ(with("FATHOM_SIM_CAPABILITY", "90").shared_bytes(), 232448u);
}

TEST_F(SimSettings, RefuseWhatTheyDoNotKnow) {
  EXPECT_HOLDS(refusal("FATHOM_SIM_THREADS", "backward"), "not forward, reverse or random[:SEED]");
  EXPECT_HOLDS(refusal("FATHOM_SIM_THREADS", "random:x"), "\"x\" is not a number");
  EXPECT_HOLDS(refusal("FATHOM_SIM_BLOCKS", "random5"), "is not random:SEED");
  EXPECT_HOLDS(refusal("FATHOM_SIM_STREAMS", "late"), "FATHOM_SIM_STREAMS");
  EXPECT_HOLDS(refusal("FATHOM_SIM_PROTECT", "yes"), "is not 0 or 1");
  EXPECT_HOLDS(refusal("FATHOM_SIM_DEVICES", "65"), "from 0 to 64");
  EXPECT_HOLDS(refusal("FATHOM_SIM_MEMORY", "0"), "from 1 to");
  EXPECT_HOLDS(refusal("FATHOM_SIM_CAPABILITY", "8.6"), "is not a number");
}

}  // namespace
}  // namespace fathom::test
