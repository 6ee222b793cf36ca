// The own text of a student whose late layers vote is what they say together.

#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "tests/train/small_distillation.h"
#include "train/on_policy_source.h"
#include "train/trainer.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;

class VotedText : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::SharedDirectory(test::world(), [](const fs::path& folder) {
      small::write_models(folder);
      testing::write_tokens(folder / "tokens.h5", 40, 4, 20, small::kVocab, 3);
    });
  }
  static void TearDownTestSuite() {
    test::world().barrier();
    delete files_;
  }

  // Greedy own text in place of every record; before any training, with equal votes.
  static TrainConfig config() {
    TrainConfig config = small::config(files_->path(), GetParam());
    config.mode = {
        .enabled = true, .spec = {.k = 3}, .router_init = methods::mode::RouterInit::uniform};
    config.distill.method = DistillMethod::mixed;
    config.distill.lambda = 1;
    config.distill.temperature = 0;
    config.distill.max_new = 8;
    return config;
  }

  inline static testing::SharedDirectory* files_ = nullptr;
};

TEST_P(VotedText, IsWhatTheLayersSayTogether) {
  const TrainConfig config = this->config();
  const auto device = test::make_device(std::size_t{1} << 28);
  comm::ProcessGrid grid(
      test::world(), {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp}, *device);
  Engine engine(*device, grid, config, make_engine_plan(config), true);
  engine.load_initial_weights();
  const data::Dataset dataset(
      std::make_shared<const data::TokenFile>(data::TokenFile::open(*files_ / "tokens.h5")), 64,
      data::Overlong::refuse);
  OnPolicySource source(dataset, {config.batch.micro_batches, config.batch.micro_batch}, 5,
                        config.distill, engine.student(), grid, engine.vote());
  const auto continued = [&](const std::vector<std::int32_t>& prompt,
                             const methods::mode::LateVote* vote) {
    generate::Generator generator(engine.student(), grid,
                                  {.max_new = config.distill.max_new, .batch = 1, .vote = vote});
    return generator.generate({{prompt, 0}}).front().ids;
  };
  std::int64_t texts = 0, unlike = 0;
  for (const data::MicroBatch& batch : source.take({.step = 0, .steps = 1, .data = 0}).slots)
    for (std::size_t s = 0; s < static_cast<std::size_t>(batch.sequences()); ++s) {
      ASSERT_EQ(batch.role, data::Role::student_text);
      const auto record = dataset.file().record(batch.record_index[s]);
      const std::vector<std::int32_t> prompt(record.ids.begin(),
                                             record.ids.begin() + record.prompt_length);
      std::vector<std::int32_t> labels;  // the answer, from its first token on
      for (auto t = batch.cu_seqlens[s]; t < batch.cu_seqlens[s + 1]; ++t)
        if (const std::int32_t id = batch.labels[static_cast<std::size_t>(t)]; id != data::kNoLabel)
          labels.push_back(id);
      std::vector<std::int32_t> together = continued(prompt, engine.vote());
      // An answer ends with its first end of text; the continuation goes on.
      ASSERT_LE(labels.size(), together.size());
      together.resize(labels.size());
      EXPECT_EQ(labels, together) << "record " << batch.record_index[s];
      unlike += continued(prompt, nullptr) != together;
      ++texts;
    }
  EXPECT_GT(texts, 0);
  EXPECT_GT(unlike, 0) << "the last layer alone would have said the same";
}

INSTANTIATE_TEST_SUITE_P(AllGrids, VotedText,
                         ::testing::ValuesIn(small::grids(small::launched_ranks())),
                         [](const auto& grid) { return small::name_of(grid.param); });

}  // namespace
}  // namespace fathom::train
