// Who parses what: each text once, on the rank of a model that it belongs to, wherever it stands.

#include "train/span_feed.h"

#include "tests/train/mta_run.h"

namespace fathom::train::mta_run {
namespace {

using data::MicroBatch;
using data::Role;

class SpanFeedOf : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  SpanFeedOf()
      : files_(test::world(), [](const fs::path& folder) { write_english(folder / "t.h5", 1); }),
        tokens_(std::make_shared<const data::TokenFile>(data::TokenFile::open(files_ / "t.h5"))) {}
  void TearDown() override { test::world().barrier(); }

  MicroBatch batch(Role role, const std::vector<std::int64_t>& records) const {
    MicroBatch result;
    for (const std::int64_t r : records) data::append(result, tokens_->record(r), r, r);
    result.role = role;
    return result;
  }

  testing::SharedDirectory files_;
  std::shared_ptr<const data::TokenFile> tokens_;
};

TEST_P(SpanFeedOf, ATextIsTheSameRanksWhereverItStands) {
  const auto device = test::make_device(std::size_t{1} << 24);
  comm::ProcessGrid grid(test::world(), GetParam(), *device);
  SpansConfig config;
  config.model = FATHOM_SPAN_MODEL;
  SpanFeed feed(grid, config);
  feed.open(tokens_, testing::shakespeare());
  const std::vector<MicroBatch> first = {batch(Role::student_text, {0, 1, 2}),
                                         batch(Role::dataset, {3, 4})};
  feed.prefetch(first);
  const auto found = feed.take(first);
  // A later step has other slots, and one of them is empty.
  const auto again = feed.take({MicroBatch(), batch(Role::dataset, {4, 3}),
                                batch(Role::student_text, {2, 0}), batch(Role::student_text, {1})});
  EXPECT_TRUE(again[0].empty());
  EXPECT_EQ(again[1], (std::vector{found[1][1], found[1][0]}));
  EXPECT_EQ(again[2], (std::vector{found[0][2], found[0][0]}));
  EXPECT_EQ(again[3], (std::vector{found[0][1]}));
  EXPECT_FALSE(found[0][0].words.empty());
  std::int64_t parsed = feed.take_counts().extracted;
  for (comm::Communicator* group : {&grid.tp(), &grid.pp()})
    group->all_reduce(&parsed, 1, comm::ReduceOp::sum);
  EXPECT_EQ(parsed, 5) << "each once";
}

INSTANTIATE_TEST_SUITE_P(AllGrids, SpanFeedOf,
                         ::testing::ValuesIn(small::grids(small::launched_ranks())),
                         [](const auto& grid) { return small::name_of(grid.param); });

}  // namespace
}  // namespace fathom::train::mta_run
