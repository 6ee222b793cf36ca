#include "comm/launch_environment.h"

#include <gtest/gtest.h>
#include <map>

#include "core/error.h"

namespace fathom::comm {
namespace {

LaunchEnvironment read(const std::map<std::string, std::string>& variables) {
  return read_launch_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

/// Of kind config: job scripts start what was lost for lack of communication again.
void expect_error(const LaunchEnvironment& environment, int world, int wanted,
                  const std::string& part) {
  try {
    check_rank_count(environment, world, wanted);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

TEST(LaunchEnvironment, NothingIsLaunchedWithoutALauncher) {
  EXPECT_FALSE(read({}).launched());
  EXPECT_NO_THROW(check_rank_count(read({}), 1, 1));
}

TEST(LaunchEnvironment, ByHandInsideAnAllocationIsRefused) {
  const auto by_hand = read({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}});
  EXPECT_FALSE(by_hand.launched());
  expect_error(by_hand, 1, 4, "Slurm says 4 tasks but MPI sees 1");
}

TEST(LaunchEnvironment, LaunchersSayHowManyRanksANodeHas) {
  EXPECT_FALSE(read({}).node_ranks);
  EXPECT_EQ(read({{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}}).node_ranks, 3);
  EXPECT_EQ(read({{"MPI_LOCALNRANKS", "2"}}).node_ranks, 2);
  const auto on_node = [](const char* node) {
    return read({{"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}, {"SLURM_NODEID", node}}).node_ranks;
  };
  EXPECT_EQ(on_node("0"), 4);
  EXPECT_EQ(on_node("1"), 4);
  EXPECT_EQ(on_node("2"), 3);
  EXPECT_FALSE(on_node("3"));
}

TEST(LaunchEnvironment, MpirunGoesBeforeTheStepOfItsDaemons) {
  const auto found =
      read({{"OMPI_COMM_WORLD_SIZE", "4"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  EXPECT_TRUE(found.launched());
  EXPECT_EQ(found.mpirun_ranks, 4);
  EXPECT_FALSE(found.srun_ranks);
  EXPECT_NO_THROW(check_rank_count(found, 4, 4));
  expect_error(found, 1, 4, "mpirun started 4 ranks but MPI sees 1");
}

TEST(LaunchEnvironment, SrunWithoutPmixIsRefused) {
  const auto singletons = read({{"SLURM_STEP_ID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  EXPECT_FALSE(singletons.launched());
  expect_error(singletons, 1, 1, "srun --mpi=pmix");
  const auto wired = read({{"SLURM_STEP_ID", "3"}, {"SLURM_NTASKS", "4"}, {"PMIX_RANK", "2"}});
  EXPECT_TRUE(wired.launched());
  EXPECT_NO_THROW(check_rank_count(wired, 4, 4));
}

TEST(LaunchEnvironment, AGridOfAnotherSizeIsAConfigError) {
  expect_error(read({{"OMPI_COMM_WORLD_SIZE", "2"}}), 2, 8, "-n 8");
  expect_error(read({}), 1, 2, "but 1 is running");
}

TEST(LaunchEnvironment, AMalformedCountNamesTheVariable) {
  for (const char* text : {"", "two", "0", "4x", "-1"}) {
    try {
      read({{"OMPI_COMM_WORLD_SIZE", text}});
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      EXPECT_NE(std::string(error.what()).find("OMPI_COMM_WORLD_SIZE"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace fathom::comm
