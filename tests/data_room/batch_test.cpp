#include "data/batch.h"

#include "token_fixture.h"

namespace fathom::data {
namespace {

using Ids = std::vector<std::int32_t>;

MicroBatch packed(const std::vector<PlainRecord>& records) {
  MicroBatch batch;
  std::int64_t sample = 100;
  for (const PlainRecord& r : records) append(batch, {r.ids, r.prompt_length}, sample++, r.source);
  return batch;
}

TEST(Batch, PacksWithoutPadding) {
  const MicroBatch batch = packed({{{1, 2, 3}, 0, 7}, {{4, 5, 6, 7}, 2, 9}});
  EXPECT_EQ(batch.ids, (Ids{1, 2, 4, 5, 6}));
  EXPECT_EQ(batch.labels, (Ids{2, 3, -100, 6, 7}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 0, 1, 2}));
  EXPECT_EQ(batch.cu_seqlens, (Ids{0, 2, 5}));
  EXPECT_EQ(batch.sample_index, (std::vector<std::int64_t>{100, 101}));
  EXPECT_EQ(batch.record_index, (std::vector<std::int64_t>{7, 9}));
  EXPECT_EQ(batch.label_tokens, 4);
}

TEST(Batch, ThePromptEndsWhereTheResponseIsPredicted) {
  EXPECT_EQ(packed({{{1, 2, 3, 4}, 0, 0}}).labels, (Ids{2, 3, 4}));
  EXPECT_EQ(packed({{{1, 2, 3, 4}, 1, 0}}).labels, (Ids{2, 3, 4}));
  EXPECT_EQ(packed({{{1, 2, 3, 4}, 2, 0}}).labels, (Ids{-100, 3, 4}));
  EXPECT_EQ(packed({{{1, 2, 3, 4}, 3, 0}}).labels, (Ids{-100, -100, 4}));
}

TEST(Batch, APromptMayBeLearntAndStaysAPrompt) {
  const Ids ids{1, 2, 3, 4};
  MicroBatch batch;
  append(batch, {.ids = ids, .prompt_length = 3, .learn_prompt = true}, 0, 0);
  append(batch, {.ids = ids, .prompt_length = 3}, 1, 0);
  append(batch, {.ids = ids, .prompt_length = 0}, 2, 0);
  append(batch, {.ids = std::span(ids).first(2), .prompt_length = 3, .learn_prompt = true}, 3, 0);
  EXPECT_EQ(batch.labels, (Ids{2, 3, 4, -100, -100, 4, 2, 3, 4, 2}));
  EXPECT_EQ(batch.prompts, (Ids{3, 3, 1, 1})) << "positions; the last was cut inside its prompt";
  EXPECT_EQ(slice(batch, 1, 3).prompts, (Ids{3, 1}));
}

TEST(Batch, EmptyIsValid) {
  const MicroBatch batch;
  EXPECT_TRUE(batch.empty());
  EXPECT_EQ(batch.tokens(), 0);
  EXPECT_EQ(batch.label_tokens, 0);
  EXPECT_EQ(batch.cu_seqlens, (Ids{0}));
}

// Rows of 4, 2 and 3 tokens, prompt of two in the first.
const Ids kIds{1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 9, 0};
const Ids kMask{1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0};
const Ids kLabels{-100, -100, 3, 4, 5, 6, -100, -100, 7, 8, 9, -100};

TEST(Batch, PaddedRowsArePackedAndLabelsShifted) {
  const MicroBatch batch = from_padded(kIds, kMask, kLabels, 3, 4, 10);
  EXPECT_EQ(batch.ids, (Ids{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(batch.labels, (Ids{-100, 3, 4, -100, 6, -100, 8, 9, -100}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 3, 0, 1, 0, 1, 2}));
  EXPECT_EQ(batch.cu_seqlens, (Ids{0, 4, 6, 9}));
  EXPECT_EQ(batch.prompts, (Ids{2, 1, 1})) << "up to the position that predicts the first label";
  EXPECT_EQ(batch.sample_index, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(batch.label_tokens, 5);
}

TEST(Batch, BadPaddedBatchesAreNamed) {
  const auto spoil = [](Ids values, std::size_t at, std::int32_t value) {
    values[at] = value;
    return values;
  };
  const auto refuse = [](const std::vector<std::string>& parts, const Ids& ids, const Ids& mask,
                         const Ids& labels) {
    expect_error(ErrorKind::data, parts, [&] { from_padded(ids, mask, labels, 3, 4, 10); });
  };
  refuse({"row 0 column 1", "after a 0"}, kIds, spoil(kMask, 0, 0), kLabels);
  refuse({"row 2 column 3 is 2"}, kIds, spoil(kMask, 11, 2), kLabels);
  refuse({"row 1", "no token"}, kIds, spoil(spoil(kMask, 4, 0), 5, 0), kLabels);
  refuse({"ids: row 2 column 1 is 10", "9"}, spoil(kIds, 9, 10), kMask, kLabels);
  refuse({"labels: row 1 column 2", "padding"}, kIds, kMask, spoil(kLabels, 6, 3));
  refuse({"labels: row 0 column 3 is -1"}, kIds, kMask, spoil(kLabels, 3, -1));
  refuse({"3 x 4", "11 ids"}, Ids(11), kMask, kLabels);
}

TEST(Batch, PaddingMayHoldAnything) {
  Ids ids = kIds;
  ids[7] = -1;
  EXPECT_EQ(from_padded(ids, kMask, kLabels, 3, 4, 10).tokens(), 9);
}

TEST(Batch, SlicesKeepTheirNumbers) {
  const MicroBatch whole = from_padded(kIds, kMask, kLabels, 3, 4, 10);
  const MicroBatch first = slice(whole, 0, 2);
  const MicroBatch second = slice(whole, 2, 3);
  EXPECT_EQ(first.sequences(), 2);
  EXPECT_EQ(second.ids, (Ids{7, 8, 9}));
  EXPECT_EQ(second.labels, (Ids{8, 9, -100}));
  EXPECT_EQ(second.positions, (Ids{0, 1, 2}));
  EXPECT_EQ(second.cu_seqlens, (Ids{0, 3}));
  EXPECT_EQ(second.sample_index, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(first.label_tokens + second.label_tokens, whole.label_tokens);
  EXPECT_TRUE(slice(whole, 1, 1).empty());
}

}  // namespace
}  // namespace fathom::data
