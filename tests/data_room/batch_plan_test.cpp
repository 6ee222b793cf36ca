#include "data/batch_plan.h"

#include <algorithm>
#include <set>

#include "token_fixture.h"

namespace fathom::data {
namespace {

class Batches : public TokenFixture {
 protected:
  Dataset dataset(int records) { return Dataset(open(growing(records)), 1000, Overlong::refuse); }
};

// What all ranks of a dp layout consume in a step, in rank and slot order.
std::vector<std::int64_t> consumed(const TrainBatches& batches, std::int64_t step, int dp) {
  std::vector<std::int64_t> samples;
  for (int rank = 0; rank < dp; ++rank) {
    const Share share = share_of(batches.plan().micro_batches, rank, dp);
    for (std::int64_t s = 0; s < share.slots; ++s) {
      const MicroBatch batch = batches.slot(step, share, s);
      samples.insert(samples.end(), batch.sample_index.begin(), batch.sample_index.end());
    }
  }
  return samples;
}

TEST(Share, IsContiguousAndPadded) {
  for (std::int64_t micro_batches : {0, 1, 2, 3, 5, 8, 13}) {
    for (int dp : {1, 2, 3, 4, 7}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < dp; ++rank) {
        const Share share = share_of(micro_batches, rank, dp);
        EXPECT_EQ(share.begin, next);
        EXPECT_GE(share.slots, share.count());
        EXPECT_LE(share.slots - share.count(), 1);
        EXPECT_EQ(share.slots, share_of(micro_batches, 0, dp).count());
        next = share.end;
      }
      EXPECT_EQ(next, micro_batches);
    }
  }
  EXPECT_EQ(share_of(3, 0, 2).count(), 2);
  EXPECT_EQ(share_of(3, 1, 2).count(), 1);
}

TEST_F(Batches, SamplesAreFixedWhateverTheLayout) {
  const Dataset data = dataset(24);
  const TrainBatches batches(data, {5, 3}, 7);
  for (std::int64_t step = 0; step < 6; ++step) {
    std::vector<std::int64_t> expected;
    for (std::int64_t k = 0; k < 15; ++k) expected.push_back(step * 15 + k);
    for (int dp : {1, 2, 3, 4, 5, 8}) EXPECT_EQ(consumed(batches, step, dp), expected) << dp;
  }
}

TEST_F(Batches, EveryEpochVisitsEachRecordOnce) {
  const Dataset data = dataset(24);
  const TrainBatches batches(data, {5, 1}, 7);  // epochs and steps do not line up
  std::vector<std::int64_t> records;
  for (std::int64_t step = 0; step < 24; ++step) {
    for (std::int64_t j = 0; j < 5; ++j) {
      records.push_back(batches.micro_batch(step, j).record_index.at(0));
    }
  }
  for (int epoch = 0; epoch < 5; ++epoch) {
    const std::set<std::int64_t> seen(records.begin() + epoch * 24,
                                      records.begin() + epoch * 24 + 24);
    EXPECT_EQ(seen.size(), 24u) << "epoch " << epoch;
  }
}

TEST_F(Batches, ResumeOnAnotherLayoutGoesOnWithTheNextSample) {
  const Dataset data = dataset(24);
  const TrainBatches before(data, {4, 2}, 7);
  std::vector<std::int64_t> straight, resumed;
  const auto take = [](std::vector<std::int64_t>& out, const std::vector<std::int64_t>& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  for (std::int64_t step = 0; step < 10; ++step) take(straight, consumed(before, step, 4));
  for (std::int64_t step = 0; step < 5; ++step) take(resumed, consumed(before, step, 4));
  const TrainBatches after(data, {2, 4}, 7);  // other micro-batches, the same samples a step
  EXPECT_EQ(after.identity(), before.identity());
  for (std::int64_t step = 5; step < 10; ++step) take(resumed, consumed(after, step, 2));
  EXPECT_EQ(resumed, straight);
}

TEST_F(Batches, CountsFromTheIndexEqualTheBatches) {
  const Dataset data = dataset(17);
  const TrainBatches batches(data, {3, 2}, 1);
  for (std::int64_t step = 0; step < 9; ++step) {
    BatchCounts summed;
    for (std::int64_t j = 0; j < 3; ++j) {
      const BatchCounts counted = count(batches.micro_batch(step, j));
      EXPECT_EQ(batches.counts(step, j), counted);
      summed += counted;
    }
    EXPECT_EQ(batches.counts(step), summed);
  }
}

TEST_F(Batches, TruncatedRecordsCountAsTruncated) {
  const Dataset data(open(growing(17)), 6, Overlong::truncate);
  const EvalBatches batches(data, 4);
  BatchCounts summed;
  for (std::int64_t j = 0; j < batches.micro_batches(); ++j)
    summed += count(batches.micro_batch(j));
  EXPECT_EQ(batches.counts(), summed);
  EXPECT_EQ(data.report().label_tokens, summed.label_tokens);
}

TEST_F(Batches, EvaluationSeesEveryRecordOnceOnAnyLayout) {
  const Dataset data = dataset(17);
  const EvalBatches batches(data, 5);
  EXPECT_EQ(batches.micro_batches(), 4);
  for (int dp : {1, 2, 3, 6}) {
    std::vector<std::int64_t> seen;
    for (int rank = 0; rank < dp; ++rank) {
      const Share share = share_of(batches.micro_batches(), rank, dp);
      for (std::int64_t s = 0; s < share.slots; ++s) {
        const MicroBatch batch = batches.slot(share, s);
        seen.insert(seen.end(), batch.sample_index.begin(), batch.sample_index.end());
      }
    }
    ASSERT_EQ(seen.size(), 17u) << dp;
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(EvalBatches(data, 5, 6).micro_batches(), 2);
  EXPECT_EQ(EvalBatches(data, 5, 6).counts().sequences, 6);
  EXPECT_EQ(EvalBatches(data, 5, 600).counts().sequences, 17);
}

TEST_F(Batches, RefusesEmptyPlans) {
  const Dataset data = dataset(3);
  expect_error(ErrorKind::config, {"0 micro-batches"}, [&] { TrainBatches(data, {0, 1}, 1); });
  expect_error(ErrorKind::config, {"of 0 sequences"}, [&] { EvalBatches(data, 0); });
}

TEST_F(Batches, ChangedDataIsRefusedOnResume) {
  const Dataset data = dataset(24);
  const DataIdentity saved = TrainBatches(data, {4, 2}, 7).identity();
  require_same_data(saved, TrainBatches(data, {8, 1}, 7).identity());
  const auto refuse = [&](const std::vector<std::string>& parts, const DataIdentity& now) {
    expect_error(ErrorKind::config, parts, [&] { require_same_data(saved, now); });
  };
  const Dataset shorter(open(growing(24)), 64, Overlong::refuse);
  refuse({"context length: was 1000, is 64", "run.reset_data=true"},
         TrainBatches(shorter, {4, 2}, 7).identity());
  auto other = growing(24);
  other[3].ids[0] = 99;
  const Dataset regenerated(open(other), 1000, Overlong::refuse);
  refuse({"fingerprint: was"}, TrainBatches(regenerated, {4, 2}, 7).identity());
  refuse({"seed: was 7, is 8", "samples per step: was 8, is 16"},
         TrainBatches(data, {8, 2}, 8).identity());
}

}  // namespace
}  // namespace fathom::data
