// What a step's losses are divided by.

#include "train/token_loss.h"

#include <gtest/gtest.h>

#include "core/device.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_device.h"
#include "train/engine.h"

namespace fathom::train {
namespace {

/// Sequences with so many labels each, after one position without.
data::MicroBatch batch_of(const std::vector<int>& labels) {
  data::MicroBatch batch;
  std::int64_t sample = 0;
  for (const int count : labels) {
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(count) + 2, 7);
    data::append(batch, {.ids = ids, .prompt_length = 2}, sample, sample);
    ++sample;
  }
  return batch;
}

/// The weighted sum over rows that head_loss makes, with the same loss on all rows of a batch.
double objective(const LossConfig& config, const data::BatchCounts& counts, const Tensor& weights,
                 std::int64_t rows, double loss) {
  const double each =
      static_cast<double>(
          token_loss(config, data::RoleCounts(counts), data::Role::dataset).ce_weight) *
      loss;
  if (!weights) return each * static_cast<double>(rows);
  double sum = 0;
  const std::vector<float> factors = to_host(weights);
  for (std::size_t r = 0; r < factors.size(); r += 2) sum += each * static_cast<double>(factors[r]);
  return sum;
}

// One token with a loss of 4 and three with 0, in two micro-batches: the mean over tokens is 1,
// not the 2 of a mean of means; the mean over sequences is 2.
TEST(TokenLoss, DividesByTheCountsOfTheWholeStep) {
  const auto device = test::make_test_device(std::size_t{1} << 20);
  const data::MicroBatch a = batch_of({1}), b = batch_of({3});
  data::BatchCounts counts = data::count(a);
  counts += data::count(b);
  for (const auto& [normalise, expected] :
       {std::pair{Normalise::tokens, 1.0}, std::pair{Normalise::sequences, 2.0}}) {
    const LossConfig config{.normalise = normalise};
    EXPECT_DOUBLE_EQ(objective(config, counts, row_weights(*device, config, a), 1, 4.0) +
                         objective(config, counts, row_weights(*device, config, b), 3, 0.0),
                     expected);
  }
}

TEST(TokenLoss, WeighsTheRowsOfASequenceByItsLength) {
  const auto device = test::make_test_device(std::size_t{1} << 20);
  data::MicroBatch batch = batch_of({2, 1, 4});
  batch.labels[static_cast<std::size_t>(batch.cu_seqlens[1]) + 1] = data::kNoLabel;  // all of it
  const Tensor weights = row_weights(*device, {.normalise = Normalise::sequences}, batch);
  const float h = 0.5f, q = 0.25f;
  EXPECT_EQ(to_host(weights), (std::vector<float>{h, h, h, h, q, q, q, q, q, q, q, q}));
  EXPECT_EQ(weights.shape(), (Shape{6, 2}));
  EXPECT_FALSE(row_weights(*device, {}, batch).defined());
}

TEST(TokenLoss, OfAStepWithoutLabelsIsFinite) {
  EXPECT_EQ(token_loss({.ce_weight = 2}, {}, data::Role::dataset).ce_weight, 2.0f);
}

TEST(TokenLoss, MultipliesTheDivergenceBySquaredTemperature) {
  const LossConfig config{.ce_weight = 1,
                          .kd_weight = 0.5,
                          .divergence = Divergence::skew_reverse_kl,
                          .alpha = 0.25,
                          .detach_mixture = true,
                          .temperature = 2,
                          .scale_t2 = true};
  const kernels::TokenLoss loss = token_loss(
      config, data::RoleCounts(data::BatchCounts{.label_tokens = 8}), data::Role::dataset);
  EXPECT_EQ(loss.ce_weight, 0.125f);
  EXPECT_EQ(loss.kd_weight, 0.25f);
  EXPECT_EQ(loss.temperature, 2.0f);
  EXPECT_EQ(loss.divergence.kind, Divergence::skew_reverse_kl);
  EXPECT_EQ(loss.divergence.alpha, 0.25f);
  EXPECT_TRUE(loss.divergence.detach_mixture);
}

TEST(LossParts, TellOfTheCorpusBesideEverything) {
  TrainConfig config;
  config.teacher.path = "t";
  config.loss.divergence = Divergence::reverse_kl;
  config.data.corpus = "c.h5";
  RoleSums sums;
  sums[data::Role::dataset] = {.cross_entropy = 6, .divergence = 8, .tokens = 2};
  sums[data::Role::student_text] = {.divergence = 4, .tokens = 4};
  sums[data::Role::corpus] = {.cross_entropy = 20, .tokens = 4};
  sums[data::Role::chosen] = {.divergence = 9, .tokens = 3};
  sums[data::Role::rejected] = {.divergence = 2, .tokens = 1};
  const auto parts = [&] {
    std::vector<std::pair<std::string, double>> named;
    for (const NamedValue& part : loss_parts(config, sums))
      named.emplace_back(part.name, part.value);
    return named;
  };
  using Parts = std::vector<std::pair<std::string, double>>;
  EXPECT_EQ(parts(), (Parts{{"ce", 3}, {"reverse_kl", 2}, {"corpus", 5}}));
  config.distill.method = DistillMethod::contrastive;
  EXPECT_EQ(parts(), (Parts{{"skew_kl", 3}, {"skew_reverse_kl", 2}, {"corpus", 5}}));
}

// Where the heads are padded, only the real entries count, and tensor ranks share just those.
TEST(TokenLoss, CountsTheVocabularyThatIsAskedFor) {
  const testing::TemporaryDirectory folder;
  testing::write_model(folder / "student", {}, 7);
  testing::write_model(folder / "teacher", {.vocab = 520}, 11);
  TrainConfig config;
  config.model.path = folder / "student";
  config.teacher.path = folder / "teacher";
  EXPECT_EQ(make_engine_plan(config).loss_vocab, 503);
  config.loss.vocab = 499;
  EXPECT_EQ(make_engine_plan(config).loss_vocab, 499);
  config.loss.vocab = 504;
  testing::expect_error(
      ErrorKind::config, [&] { make_engine_plan(config); }, "loss.vocab = 504", "503 entries");
}

}  // namespace
}  // namespace fathom::train
