#include "generate/exit_ledger.h"

#include <gtest/gtest.h>

#include "../support/expect_error.h"
#include "generate/exit_counts.h"
#include "generate/exit_gate.h"

namespace fathom::generate {
namespace {

using fathom::testing::expect_error;

constexpr std::int64_t kGate = 6, kLayers = 9;  // three late layers

// One sequence, token by token.
class OneSequence {
 public:
  explicit OneSequence(const ExitOptions& options) : ledger_(options, 2, kGate, kLayers) {}

  // (position, from, to) of the rows that run when the next token needs so many layers.
  std::vector<std::vector<std::int64_t>> next(std::int64_t depth) {
    Step step;
    step.slots = {1};
    step.lengths = {++length_};
    std::vector<std::vector<std::int64_t>> rows;
    for (const LateRow& row : ledger_.plan(step, std::vector{depth})) {
      EXPECT_EQ(row.slot, 1);
      EXPECT_EQ(row.scored, row.position == length_ - 1 ? 0 : -1);
      rows.push_back({row.position, row.from, row.to, row.until});
    }
    return rows;
  }

 private:
  ExitLedger ledger_;
  std::int32_t length_ = 0;
};

using Rows = std::vector<std::vector<std::int64_t>>;

TEST(ExitLedger, WaitingTokensFollowOneThatGoesDeeper) {
  OneSequence tokens({.flush = 0});
  EXPECT_EQ(tokens.next(8), (Rows{{0, 6, 8, 8}}));
  EXPECT_EQ(tokens.next(7), (Rows{{1, 6, 7, 7}}));
  EXPECT_EQ(tokens.next(7), (Rows{{2, 6, 7, 7}}));
  // As far as it goes itself: token 0 has been there.
  EXPECT_EQ(tokens.next(8), (Rows{{1, 7, 8, 8}, {2, 7, 8, 8}, {3, 6, 8, 8}}));
  EXPECT_EQ(tokens.next(7), (Rows{{4, 6, 7, 7}}));
  EXPECT_EQ(
      tokens.next(9),
      (Rows{{0, 8, 9, 9}, {1, 8, 9, 9}, {2, 8, 9, 9}, {3, 8, 9, 9}, {4, 7, 9, 9}, {5, 6, 9, 9}}));
  EXPECT_EQ(tokens.next(9), (Rows{{6, 6, 9, 9}}));
}

TEST(ExitLedger, AFullListIsFlushed) {
  OneSequence every({.flush = 1});
  for (std::int64_t t = 0; t < 4; ++t) EXPECT_EQ(every.next(7), (Rows{{t, 6, 9, 9}}));

  OneSequence third({.flush = 3});
  for (std::int64_t t = 0; t < 9; t += 3) {
    EXPECT_EQ(third.next(7), (Rows{{t, 6, 7, 7}}));
    EXPECT_EQ(third.next(8), (Rows{{t, 7, 8, 8}, {t + 1, 6, 8, 8}}));
    EXPECT_EQ(third.next(7), (Rows{{t, 8, 9, 9}, {t + 1, 8, 9, 9}, {t + 2, 6, 9, 9}}));
  }
}

TEST(ExitLedger, OtherCachesLetNothingWait) {
  OneSequence copy({.cache = ExitCache::copy});
  EXPECT_EQ(copy.next(7), (Rows{{0, 6, 7, 9}}));
  EXPECT_EQ(copy.next(9), (Rows{{1, 6, 9, 9}}));
  OneSequence off({.cache = ExitCache::off});
  EXPECT_EQ(off.next(7), (Rows{{0, 6, 9, 9}}));
}

// Sequences do not wait for each other, and a new one in a slot owes nothing for the old one.
TEST(ExitLedger, SlotsAreOnTheirOwn) {
  ExitLedger ledger({.flush = 0}, 2, kGate, kLayers);
  Step step;
  step.slots = {0, 1};
  step.lengths = {5, 3};
  EXPECT_EQ(ledger.plan(step, std::vector<std::int64_t>{7, 7}).size(), 2u);
  step.lengths = {6, 4};
  const auto rows = ledger.plan(step, std::vector<std::int64_t>{9, 7});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].position, 4);
  EXPECT_EQ(rows[1].position, 5);
  EXPECT_EQ(rows[2].slot, 1);

  Step next;
  next.prompt_starts = {0, 2};
  next.prompt_slots = {1};
  next.slots = {0};
  next.lengths = {7};
  EXPECT_EQ(ledger.plan(next, std::vector<std::int64_t>{9, 7}).size(), 1u);
  step.slots = {1};
  step.lengths = {3};
  EXPECT_EQ(ledger.plan(step, std::vector<std::int64_t>{9}).size(), 1u);
}

TEST(ExitGate, KeepsLayersUntilTheirWeightsReachTheShare) {
  const auto kept = [](std::vector<float> weights, double share) {
    keep_until(weights, share);
    return weights;
  };
  const std::vector<float> weights{0.5f, 0.125f, 0.25f, 0.125f};
  EXPECT_EQ(kept(weights, 0.5), (std::vector<float>{1, 0, 0, 0}));
  EXPECT_EQ(kept(weights, 0.6), (std::vector<float>{0.8f, 0.2f, 0, 0}));
  EXPECT_EQ(kept(weights, 0.9), weights);
  EXPECT_EQ(kept(weights, 1), weights);
  // Weights that a softmax has rounded sum to less than 1; all of them stay.
  EXPECT_FLOAT_EQ(kept({0.5f, 0.25f, 0.2499f}, 0.99999).back(), 0.2499f / 0.9999f);

  EXPECT_EQ(depth_of(std::vector<float>{1, 0, 0}), 1);
  EXPECT_EQ(depth_of(std::vector<float>{0, 1, 0}), 2);
  EXPECT_EQ(depth_of(std::vector<float>{0.5f, 0, 0.5f}), 3);
}

// LLaMA2-7B with four late layers: all tokens at the first one, its keys made at every eighth.
TEST(ExitCounts, TheBoundIsTheShareOfWeightsThatAreNotRead) {
  model::ModelSpec spec;
  spec.layers = 32;
  spec.hidden = spec.embed_dim = 4096;
  spec.heads = spec.kv_heads = 32;
  spec.head_dim = 128;
  spec.ffn = 11008;
  spec.vocab = 32000;
  ExitCounts counts(4);
  counts.tokens = {800, 0, 0, 0};
  counts.steps = 800;
  counts.runs = {800, 0, 0, 0};
  EXPECT_EQ(counts.average_depth(spec), 29);
  EXPECT_NEAR(counts.bound(spec), 1.101, 5e-4);
  counts.runs = {800, 100, 100, 100};
  const double layer = 4.0 * 4096 * 4096 + 3.0 * 4096 * 11008, head = 32000.0 * 4096;
  EXPECT_NEAR(counts.bound(spec), (32 * layer + head) / ((29 + 3 / 8.0) * layer + head), 1e-9);
  counts.runs = {800, 0, 0, 0};
  counts.copies = {0, 800, 800, 800};
  EXPECT_NEAR(counts.bound(spec), (32 * layer + head) / (29 * layer + 3 * 2.0 * 4096 * 4096 + head),
              1e-9);
  counts.runs = {800, 800, 800, 800};
  counts.copies = {0, 0, 0, 0};
  EXPECT_EQ(counts.bound(spec), 1);
}

TEST(ExitOptions, AreCheckedAgainstTheRouter) {
  using methods::mode::ModeSpec;
  using methods::mode::Router;
  const auto refuse = [](const ExitOptions& options, const ModeSpec* vote, const char* why) {
    expect_error(
        ErrorKind::config, [&] { check(options, vote); }, why);
  };
  const ExitOptions top1{.policy = ExitPolicy::topk, .topk = 1};
  const ModeSpec learnt{.k = 3}, uniform{.k = 3, .router = Router::uniform}, single{.k = 1},
      sparse{.k = 4, .top_k = 2};
  EXPECT_NO_THROW(check({}, nullptr));
  EXPECT_NO_THROW(check(top1, &learnt));
  refuse(top1, nullptr, "--exit=topk: the model has no router, for its last layer speaks alone");
  refuse(top1, &uniform, "mode.router = uniform");
  refuse(top1, &single, "a single layer");
  refuse({.policy = ExitPolicy::topk, .topk = 4}, &learnt, "--exit-topk=4");
  refuse({.policy = ExitPolicy::topk, .topk = 0}, &learnt, "give 1 to 3");
  refuse({.policy = ExitPolicy::topk, .topk = 3}, &sparse,
         "--exit-topk=3: the model weighs 2 of its 4 late layers; give 1 to 2");
  refuse({.policy = ExitPolicy::threshold, .threshold = 0}, &learnt, "--exit-threshold=0");
  refuse({.policy = ExitPolicy::threshold, .threshold = 1.5}, &learnt, "at most 1");
  refuse({.policy = ExitPolicy::topk, .topk = 1, .flush = -1}, &learnt, "--exit-flush=-1");
}

}  // namespace
}  // namespace fathom::generate
