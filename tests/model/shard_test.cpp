#include "model/shard.h"

#include <gtest/gtest.h>

#include "model_fixture.h"
#include "tests/support/expect_error.h"

namespace fathom::test {
namespace {

using fathom::testing::expect_error;
using model::make_shard;
using model::ModelSpec;
using model::Shard;

ModelSpec make_spec(std::int64_t heads, std::int64_t kv_heads, std::int64_t ffn,
                    std::int64_t vocab) {
  ModelSpec spec;
  spec.heads = heads;
  spec.kv_heads = kv_heads;
  spec.ffn = ffn;
  spec.vocab = vocab;
  return spec;
}

TEST(Shard, CutsTheVocabularyWithoutPadding) {
  const ModelSpec spec = make_spec(12, 12, 48, 503);
  for (const int size : {1, 2, 3, 4, 6, 12}) {
    std::int64_t next = 0;
    for (int rank = 0; rank < size; ++rank) {
      const Shard shard = make_shard(spec, rank, size, spec.vocab);
      EXPECT_EQ(shard.first_vocab, next) << rank << " of " << size;
      EXPECT_LE(shard.vocab, (spec.vocab + size - 1) / size);
      next += shard.vocab;
    }
    EXPECT_EQ(next, spec.vocab) << size;
  }
}

// Both models cut at the same entries; what only one has lies on the last rank.
TEST(Shard, TeacherAndStudentCutAtTheSameEntries) {
  const ModelSpec small = make_spec(4, 4, 16, 500), large = make_spec(8, 2, 32, 503);
  for (int rank = 0; rank < 4; ++rank) {
    const Shard a = make_shard(small, rank, 4, 500), b = make_shard(large, rank, 4, 500);
    EXPECT_EQ(a.first_vocab, b.first_vocab);
    EXPECT_EQ(b.vocab - a.vocab, rank == 3 ? 3 : 0);
  }
}

TEST(Shard, ARankMayHaveNoEntryOfATinyVocabulary) {
  const ModelSpec spec = make_spec(4, 4, 16, 9);
  const std::int64_t counts[] = {3, 3, 3, 0};
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(make_shard(spec, rank, 4, 9).vocab, counts[rank]) << rank;
}

TEST(Shard, DividesHeadsAndColumns) {
  const ModelSpec spec = make_spec(8, 4, 96, 100);
  for (int rank = 0; rank < 4; ++rank) {
    const Shard shard = make_shard(spec, rank, 4, 100);
    EXPECT_EQ(shard.heads, 2);
    EXPECT_EQ(shard.first_head, 2 * rank);
    EXPECT_EQ(shard.kv_heads, 1);
    EXPECT_EQ(shard.first_kv_head, rank);
    EXPECT_EQ(shard.kv_replicas, 1);
    EXPECT_EQ(shard.ffn, 24);
    EXPECT_EQ(shard.first_ffn, 24 * rank);
  }
}

// A head stays whole and with the queries that read it; ranks differ by one of them at most.
TEST(Shard, DividesHeadsUnevenly) {
  for (const auto& [heads, kv_heads, tp] : {std::tuple{9, 3, 2}, {25, 25, 4}, {10, 5, 3}}) {
    const ModelSpec spec = make_spec(heads, kv_heads, 96, 100);
    std::int64_t next = 0, next_kv = 0;
    for (int rank = 0; rank < tp; ++rank) {
      const Shard shard = make_shard(spec, rank, tp, 100);
      EXPECT_EQ(shard.first_head, next);
      EXPECT_EQ(shard.first_kv_head, next_kv);
      EXPECT_EQ(shard.heads * kv_heads, shard.kv_heads * heads);
      EXPECT_EQ(shard.kv_heads, kv_heads / tp + (shard.kv_heads > kv_heads / tp ? 1 : 0));
      EXPECT_EQ(shard.kv_replicas, 1);
      next += shard.heads;
      next_kv += shard.kv_heads;
    }
    EXPECT_EQ(next, heads);
    EXPECT_EQ(next_kv, kv_heads);
  }
}

// More ranks than key/value heads: consecutive ranks hold the same one, and each rank's query heads
// read the head that they read in the whole model.
TEST(Shard, ReplicatesKeyValueHeads) {
  for (const auto& [heads, kv_heads, tp] : {std::tuple{8, 2, 4}, {8, 1, 4}, {8, 2, 8}, {9, 3, 9}}) {
    const ModelSpec spec = make_spec(heads, kv_heads, 72, 100);
    for (int rank = 0; rank < tp; ++rank) {
      const Shard shard = make_shard(spec, rank, tp, 100);
      EXPECT_EQ(shard.kv_heads, 1);
      EXPECT_EQ(shard.kv_replicas, tp / kv_heads);
      EXPECT_EQ(shard.first_kv_head, rank / shard.kv_replicas);
      for (std::int64_t h = 0; h < shard.heads; ++h)
        EXPECT_EQ((shard.first_head + h) * kv_heads / heads, shard.first_kv_head);
    }
  }
}

TEST(Shard, RefusesWhatDoesNotDivideAndSaysWhatDoes) {
  const ModelSpec spec = make_spec(9, 3, 576 * 9, 49152);  // SmolLM2's heads
  EXPECT_EQ(model::allowed_tp(spec), "1, 2, 3, 9");
  expect_error(
      ErrorKind::config, [&] { make_shard(spec, 0, 4, spec.vocab); }, "grid.tp = 4",
      "9 attention heads", "3 key/value heads", "allowed: 1, 2, 3, 9");
}

TEST(Shard, AsksEveryDivisor) {
  EXPECT_EQ(model::allowed_tp(make_spec(12, 12, 30, 100)), "1, 2, 3, 5, 6, 10");  // ffn
  EXPECT_EQ(model::allowed_tp(make_spec(12, 4, 48, 100)), "1, 2, 3, 4, 12");      // 6, 8: not 4's
  EXPECT_EQ(model::allowed_tp(make_spec(8, 8, 64, 3)), "1, 2");                   // vocabulary
  EXPECT_EQ(model::allowed_tp(make_spec(25, 25, 6400, 50257)),                    // GPT-2 XL
            "1, 2, 4, 5, 8, 10, 16, 20, 25");
}

}  // namespace
}  // namespace fathom::test
