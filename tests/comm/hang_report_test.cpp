#include "comm/hang_report.h"

#include <fstream>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace fathom::comm {
namespace {

using testing::expect_error;
using testing::TemporaryDirectory;

HangReport working(int rank, int ranks, const std::string& action) {
  HangReport r;
  r.rank = rank;
  r.ranks = ranks;
  r.host = "node" + std::to_string(rank);
  r.pid = 100 + rank;
  r.silent_seconds = 30;
  r.sequence = 17;
  r.action = action;
  r.step = 7;
  return r;
}

HangReport receiving(int rank, int ranks, int peer) {
  HangReport r = working(rank, ranks, "recv_bundle");
  r.call = "receive";
  r.members = {0, 1};
  r.peer = peer;
  r.tag = 4;
  return r;
}

HangReport reducing(int rank, int ranks, std::vector<int> members, std::uint64_t number) {
  HangReport r = working(rank, ranks, "update");
  r.call = "all-reduce";
  r.members = std::move(members);
  r.collective = number;
  return r;
}

using Ranks = std::vector<int>;

TEST(HangReport, TheRankWithoutAReportIsNamed) {
  const auto found =
      find_culprits({reducing(0, 4, {0, 1, 2, 3}, 9), receiving(1, 4, 2), receiving(3, 4, 1)});
  EXPECT_EQ(found.ranks, Ranks{2});
  EXPECT_NE(found.reason.find("gave no report"), std::string::npos);
}

TEST(HangReport, TheRankThatWaitsForNobodyIsNamed) {
  const auto found =
      find_culprits({reducing(0, 3, {0, 1, 2}, 9), receiving(1, 3, 2), working(2, 3, "forward")});
  EXPECT_EQ(found.ranks, Ranks{2});
  EXPECT_NE(found.reason.find("waits for no other rank"), std::string::npos);
}

TEST(HangReport, TheRankThatIsBehindInItsGroupIsNamed) {
  const auto found = find_culprits(
      {reducing(0, 3, {0, 1, 2}, 9), reducing(1, 3, {0, 1, 2}, 8), reducing(2, 3, {0, 1, 2}, 9)});
  EXPECT_EQ(found.ranks, Ranks{1});
  EXPECT_NE(found.reason.find("behind"), std::string::npos);
}

TEST(HangReport, ACircleIsToldAsOne) {
  const auto found = find_culprits({receiving(0, 2, 1), receiving(1, 2, 0)});
  EXPECT_EQ(found.ranks, (Ranks{0, 1}));
  EXPECT_NE(found.reason.find("each other"), std::string::npos);
}

TEST(HangReport, FilesKeepEveryFieldAndTheNewestHangIsTaken) {
  const TemporaryDirectory run;
  expect_error(
      ErrorKind::io, [&] { newest_hang(run.path()); }, "no reports of a hang");
  write_report(run / "hang/2026-01-01T00:00:00Z", working(0, 1, "old"));
  const auto folder = run / "hang/2026-01-02T00:00:00Z";
  write_report(folder, reducing(1, 3, {0, 1, 2}, 8));
  write_report(folder, receiving(0, 3, 2));
  std::filesystem::create_directories(run / "hang/2026-01-03T00:00:00Z");  // all went on
  EXPECT_EQ(newest_hang(run.path()), folder);
  const auto reports = read_reports(folder);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(to_string(reports[0]), to_string(receiving(0, 3, 2)));
  EXPECT_EQ(to_string(reports[1]), to_string(reducing(1, 3, {0, 1, 2}, 8)));
  EXPECT_EQ(to_string(reports[0]),
            "rank 0 on node0 (pid 100) waits in receive with rank 2 (tag 4); last action "
            "recv_bundle, step 7; note 17, silent for 30 s");
  const std::string merged = merge_reports(reports);
  EXPECT_NE(merged.find("the job waited for rank 2"), std::string::npos) << merged;

  remove_report(folder, 1);
  EXPECT_EQ(read_reports(folder).size(), 1u);
  std::ofstream(folder / "rank_00001.json") << "{\"rank\": 1";
  expect_error(
      ErrorKind::io, [&] { read_reports(folder); }, "rank_00001.json");
}

}  // namespace
}  // namespace fathom::comm
