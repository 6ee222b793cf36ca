#include "data/dataset.h"

#include "token_fixture.h"

namespace fathom::data {
namespace {

class Datasets : public TokenFixture {};

// Two, four and six ids with prompts of 0, 1 and 5.
std::vector<PlainRecord> three() {
  return {{{1, 2}, 0, -1}, {{3, 4, 5, 6}, 1, -1}, {{7, 8, 9, 10, 11, 12}, 5, -1}};
}

TEST_F(Datasets, CountsInputsAndLabels) {
  const Dataset data(open(three()), 5, Overlong::refuse);
  ASSERT_EQ(data.records(), 3);
  EXPECT_EQ(data.inputs(0), 1);
  EXPECT_EQ(data.labels(0), 1);
  EXPECT_EQ(data.inputs(1), 3);
  EXPECT_EQ(data.labels(1), 3);
  EXPECT_EQ(data.inputs(2), 5);
  EXPECT_EQ(data.labels(2), 1);
  EXPECT_EQ(data.report().label_tokens, 5);
  EXPECT_EQ(data.report().longest, 5);
  EXPECT_EQ(data.report().kept, 3);
}

TEST_F(Datasets, RefusesOverlongRecordsByName) {
  expect_error(ErrorKind::data, {"record 2", "5 positions", "context has 4", "1 of 3"},
               [&] { Dataset(open(three()), 4, Overlong::refuse); });
}

TEST_F(Datasets, SkipsOverlongRecords) {
  const Dataset data(open(three()), 2, Overlong::skip);
  EXPECT_EQ(data.records(), 1);
  EXPECT_EQ(data.report().skipped, 2);
  EXPECT_EQ(data.report().truncated, 0);
}

TEST_F(Datasets, TruncatesAndDropsWhatHasNoLabelLeft) {
  const Dataset data(open(three()), 2, Overlong::truncate);
  ASSERT_EQ(data.records(), 2);
  EXPECT_EQ(data.report().truncated, 1);
  EXPECT_EQ(data.report().unlabelled, 1);
  EXPECT_EQ(data.inputs(1), 2);
  EXPECT_EQ(data.labels(1), 2);
  EXPECT_EQ(data.record(1).ids.size(), 3u);
  EXPECT_EQ(data.record(1).ids.back(), 5);
}

TEST_F(Datasets, CountsThePromptsLabelsWhereTheyAreLearnt) {
  const Dataset data(open(three()), 2, Overlong::truncate, true);
  ASSERT_EQ(data.records(), 3) << "what is cut inside its prompt has labels, too";
  EXPECT_EQ(data.labels(2), 2);
  EXPECT_EQ(data.report().label_tokens, 1 + 2 + 2);
  EXPECT_TRUE(data.record(2).learn_prompt);
  EXPECT_EQ(data.prompt_length(2), 5) << "still a prompt";
}

TEST_F(Datasets, KeepsTheFileNumberOfRecords) {
  auto records = three();
  std::swap(records[0], records[2]);
  const Dataset data(open(records), 3, Overlong::skip);
  ASSERT_EQ(data.records(), 2);
  EXPECT_EQ(data.file_record(0), 1);
  EXPECT_EQ(data.file_record(1), 2);
}

TEST_F(Datasets, RefusesAContextThatLeavesNothing) {
  const std::vector<PlainRecord> records{{{1, 2, 3}, 2, -1}};
  expect_error(ErrorKind::data, {"none of 1", "1 skipped"},
               [&] { Dataset(open(records), 1, Overlong::skip); });
  expect_error(ErrorKind::data, {"none of 1", "1 without a label"},
               [&] { Dataset(open(records), 1, Overlong::truncate); });
  expect_error(ErrorKind::config, {"context length 0"},
               [&] { Dataset(open(records), 0, Overlong::skip); });
}

TEST(Overlong, NamesAreParsed) {
  EXPECT_EQ(parse_overlong("skip"), Overlong::skip);
  expect_error(ErrorKind::config, {"'drop'", "truncate"}, [] { parse_overlong("drop"); });
}

}  // namespace
}  // namespace fathom::data
