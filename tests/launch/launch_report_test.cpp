#include "launch/launch_report.h"

#include <gtest/gtest.h>
#include <map>

namespace fathom::launch {
namespace {

RankPlace place(int rank, const std::string& host, std::vector<int> cores, int threads) {
  RankPlace p;
  p.rank = rank;
  p.host = host;
  p.cores = std::move(cores);
  p.threads = threads;
  p.device = "cpu";
  p.interfaces = {"eth0 10.0.0." + std::to_string(rank + 1)};
  return p;
}

std::string all(const std::vector<RankPlace>& ranks) {
  std::string text;
  for (const std::string& warning : launch_warnings(ranks)) text += warning + "\n";
  return text;
}

TEST(LaunchReport, OneLineSaysWhereARankIs) {
  EXPECT_EQ(to_string(place(3, "n1", {0, 1, 2, 3, 8}, 4)),
            "rank 3: host n1, 4 threads on cores 0-3,8, network eth0 10.0.0.4; on cpu");
  RankPlace chosen = place(0, "n0", {5}, 1);
  chosen.chosen_interface = "eth0";
  EXPECT_EQ(
      to_string(chosen),
      "rank 0: host n0, 1 thread on core 5, network eth0 10.0.0.1, of which MPI uses eth0; on cpu");
  EXPECT_EQ(to_string(parse_place(to_json(chosen))), to_string(chosen));
}

TEST(LaunchReport, AGoodLaunchHasNoWarnings) {
  EXPECT_EQ(all({place(0, "n0", {0, 1}, 2), place(1, "n0", {2, 3}, 2), place(2, "n1", {0, 1}, 2),
                 place(3, "n1", {2, 3}, 2)}),
            "");
}

TEST(LaunchReport, RanksThatShareACoreAreTold) {
  // mpirun binds each of two ranks with two threads to one core.
  const std::string bound = all({place(0, "n0", {0}, 2), place(1, "n0", {1}, 2)});
  EXPECT_NE(bound.find("4 threads together may use only 2 cores"), std::string::npos) << bound;
  EXPECT_EQ(bound.find("spinning"), std::string::npos) << bound;

  const std::string crowded =
      all({place(0, "n0", {0, 1}, 1), place(1, "n0", {0, 1}, 1), place(2, "n0", {0, 1}, 1)});
  EXPECT_NE(crowded.find("OMPI_MCA_mpi_yield_when_idle=1"), std::string::npos) << crowded;
}

TEST(LaunchReport, SeveralNetworksMatterOnlyBetweenHosts) {
  RankPlace first = place(0, "n0", {0}, 1), second = place(1, "n1", {0}, 1);
  first.interfaces.push_back("docker0 172.17.0.1");
  EXPECT_NE(all({first, second}).find("docker0"), std::string::npos);
  second.host = "n0";
  second.cores = {1};
  EXPECT_EQ(all({first, second}), "");
  second.host = "n1";
  first.chosen_interface = "eth0";
  EXPECT_EQ(all({first, second}), "");
}

TEST(LaunchReport, VariablesOfSlurmAndHdf5) {
  const std::map<std::string, const char*> variables = {{"SLURM_CPUS_PER_TASK", "4096"},
                                                        {"HDF5_USE_FILE_LOCKING", "TRUE"},
                                                        {"OMPI_MCA_mpi_yield_when_idle", "1"}};
  const RankPlace found = find_place(0, "n0", 1, [&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second;
  });
  EXPECT_TRUE(found.yields);
  EXPECT_GE(found.cores.size(), 1u);
  const std::string text = all({found});
  EXPECT_NE(text.find("of the 4096 cores that Slurm gave it"), std::string::npos) << text;
  EXPECT_NE(text.find("HDF5_USE_FILE_LOCKING=TRUE"), std::string::npos) << text;
}

}  // namespace
}  // namespace fathom::launch
