// A student that is trained on its own answers: what stands in the micro-batches, and that neither
// the grid nor a resume changes it.

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

#include "../mpi_main.h"
#include "core/files.h"
#include "core/log.h"
#include "tests/support/expect_error.h"
#include "tests/train/small_distillation.h"
#include "train/on_policy_source.h"
#include "train/trainer.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using data::MicroBatch;
using nlohmann::json;

constexpr std::int32_t kEnd = 2;

class OnPolicy : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  static void SetUpTestSuite() {
    logger().set_quiet(true);
    files_ = new testing::SharedDirectory(test::world(), [](const fs::path& folder) {
      small::write_models(folder);
      testing::write_tokens(folder / "tokens.h5", 120, 2, 40, small::kVocab, 3);
      testing::write_tokens(folder / "eval.h5", 7, 5, 30, small::kVocab, 5);
      testing::write_tokens(folder / "corpus.h5", 31, 4, 40, small::kVocab, 6);
    });
  }
  static void TearDownTestSuite() {
    test::world().barrier();
    delete files_;
  }

  static TrainConfig config(DistillMethod method, const comm::GridShape& grid = GetParam()) {
    TrainConfig config = small::config(files_->path(), grid);
    config.distill.method = method;
    config.distill.max_new = 12;
    config.distill.init_threshold = method == DistillMethod::adaptive ? 0.7 : 0.0;
    config.distill.capacity = 10;
    return config;
  }

  inline static testing::SharedDirectory* files_ = nullptr;
};

/// An engine and the source of its batches.
struct Student {
  Student(comm::Communicator& world, const TrainConfig& config, const fs::path& tokens,
          std::int64_t context = 64)
      : device(test::make_device(std::size_t{1} << 28)),
        grid(world, {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp}, *device),
        engine(*device, grid, config, make_engine_plan(config), true),
        dataset(std::make_shared<const data::TokenFile>(data::TokenFile::open(tokens)), context,
                data::Overlong::refuse) {
    engine.load_initial_weights();
    source.emplace(dataset, data::BatchPlan{config.batch.micro_batches, config.batch.micro_batch},
                   5, config.distill, engine.student(), grid);
  }

  StepBatches take(std::int64_t step) {
    return source->take({.step = step, .steps = 20, .data = step});
  }

  std::unique_ptr<Device> device;
  comm::ProcessGrid grid;
  Engine engine;
  data::Dataset dataset;
  std::optional<OnPolicySource> source;
};

void expect_same(const MicroBatch& actual, const MicroBatch& expected) {
  EXPECT_EQ(actual.role, expected.role);
  EXPECT_EQ(actual.ids, expected.ids);
  EXPECT_EQ(actual.labels, expected.labels);
  EXPECT_EQ(actual.cu_seqlens, expected.cu_seqlens);
  EXPECT_EQ(actual.sample_index, expected.sample_index);
  EXPECT_EQ(actual.record_index, expected.record_index);
}

// One rank that decodes one answer at a time makes the same micro-batches as any grid that decodes
// many, and every rank knows the same counts, buffer and numbers.
TEST_P(OnPolicy, BatchesAreThoseOfOneRank) {
  for (const DistillMethod method : {DistillMethod::mixed, DistillMethod::adaptive}) {
    TrainConfig whole = config(method, {});
    whole.distill.batch = 1;
    const auto self = comm::self_communicator();
    Student alone(*self, whole, *files_ / "tokens.h5");
    Student spread(test::world(), config(method), *files_ / "tokens.h5");
    const data::Share share = data::share_of(4, spread.grid.place().dp, spread.grid.shape().dp);
    bool replayed = false;
    for (std::int64_t step = 0; step < 8; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      replayed |= method == DistillMethod::adaptive && alone.source->buffer()->full();
      const StepBatches expected = alone.take(step), actual = spread.take(step);
      ASSERT_EQ(actual.slots.size(), static_cast<std::size_t>(share.slots));
      for (std::int64_t j = share.begin; j < share.end; ++j)
        expect_same(actual.slots[static_cast<std::size_t>(j - share.begin)],
                    expected.slots[static_cast<std::size_t>(j)]);
      data::RoleCounts counted;
      for (const MicroBatch& batch : expected.slots) counted[batch.role] += data::count(batch);
      for (const data::Role role : {data::Role::dataset, data::Role::student_text}) {
        EXPECT_EQ(expected.counts[role], counted[role]);
        EXPECT_EQ(actual.counts[role], counted[role]);
      }
      EXPECT_EQ(spread.source->state(), alone.source->state());
      for (std::size_t i = 0; i < actual.report.size(); ++i) {
        EXPECT_EQ(actual.report[i].name, expected.report[i].name);
        if (actual.report[i].name != "generation_seconds") {
          EXPECT_EQ(actual.report[i].value, expected.report[i].value) << actual.report[i].name;
        }
      }
    }
    EXPECT_EQ(replayed, method == DistillMethod::adaptive);
  }
}

/// Sequence s of a micro-batch with the id that its last label asks for.
std::vector<std::int32_t> text_of(const MicroBatch& batch, std::size_t s) {
  const auto begin = batch.ids.begin() + batch.cu_seqlens[s];
  const auto end = batch.ids.begin() + batch.cu_seqlens[s + 1];
  std::vector<std::int32_t> text(begin, end);
  text.push_back(batch.labels[static_cast<std::size_t>(batch.cu_seqlens[s + 1]) - 1]);
  return text;
}

// Labels are the ids one further on, from the last id of the prompt; an answer ends with its first
// end-of-text, which is a label like any other.
TEST_P(OnPolicy, AnswersAreLabelledFromTheirFirstTokenToTheirEnd) {
  TrainConfig config = this->config(DistillMethod::mixed);
  config.distill.lambda = 1;
  config.distill.temperature = 3;
  config.distill.max_new = 40;
  Student run(test::world(), config, *files_ / "tokens.h5", 45);
  const data::TokenFile& file = run.dataset.file();
  std::int64_t ended = 0, cut = 0;
  for (std::int64_t step = 0; step < 6; ++step)
    for (const MicroBatch& batch : run.take(step).slots) {
      if (batch.empty()) continue;
      EXPECT_EQ(batch.role, data::Role::student_text);
      for (std::size_t s = 0; s < static_cast<std::size_t>(batch.sequences()); ++s) {
        const auto record = file.record(batch.record_index[s]);
        const auto prompt = static_cast<std::size_t>(record.prompt_length);
        const std::vector<std::int32_t> text = text_of(batch, s);
        ASSERT_GT(text.size(), prompt);
        EXPECT_TRUE(
            std::equal(text.begin(), text.begin() + record.prompt_length, record.ids.begin()));
        for (std::size_t t = 0; t + 1 < text.size(); ++t)
          EXPECT_EQ(batch.labels[static_cast<std::size_t>(batch.cu_seqlens[s]) + t],
                    t + 1 < prompt ? data::kNoLabel : text[t + 1]);
        const auto end = std::find(text.begin() + record.prompt_length, text.end(), kEnd);
        EXPECT_TRUE(end == text.end() || end + 1 == text.end()) << "text goes on after its end";
        ended += end != text.end();
        cut += text.size() == 46;
        EXPECT_TRUE(end != text.end() || text.size() - prompt == 40 || text.size() == 46);
        EXPECT_LE(text.size(), 46u) << "45 positions and one label more";
      }
    }
  run.grid.world().all_reduce(&ended, 1, comm::ReduceOp::sum);
  run.grid.world().all_reduce(&cut, 1, comm::ReduceOp::sum);
  EXPECT_GT(ended, 0);
  EXPECT_GT(cut, 0);
}

// Who prepares something for the student's answers can begin while others are still being written.
TEST_P(OnPolicy, AnswersAreToldOfBeforeTheStepIsReady) {
  TrainConfig config = this->config(DistillMethod::mixed);
  config.distill.lambda = 1;
  config.distill.batch = 2;
  Student run(test::world(), config, *files_ / "tokens.h5");
  std::map<std::int64_t, std::vector<std::int32_t>> told;
  std::int64_t tokens = 0, tokens_at_first = 0;
  run.source->set_observers([&] { ++tokens; },
                            [&](const MicroBatch& batch) {
                              EXPECT_EQ(batch.role, data::Role::student_text);
                              ASSERT_EQ(batch.sequences(), 1);
                              if (told.empty()) tokens_at_first = tokens;
                              told[batch.sample_index[0]] = text_of(batch, 0);
                            });
  std::size_t here = 0;
  for (const MicroBatch& batch : run.take(0).slots)
    for (std::size_t s = 0; s < static_cast<std::size_t>(batch.sequences()); ++s) {
      ++here;
      const auto found = told.find(batch.sample_index[s]);
      if (found != told.end()) {
        EXPECT_EQ(found->second, text_of(batch, s));
      }
    }
  EXPECT_LE(told.size(), here) << "no other replica's";
  EXPECT_GT(told.size(), 0u);
  if (run.grid.shape().dp == 1) {
    EXPECT_EQ(told.size(), here);
    EXPECT_LT(tokens_at_first, tokens / 2);
  }
}

// Records without a prompt, and answers of padding alone, add nothing and are counted.
TEST_P(OnPolicy, WhatCannotBeAnsweredIsLeftOutAndCounted) {
  TrainConfig config = this->config(DistillMethod::mixed);
  config.distill.lambda = 1;
  config.distill.max_new = 1;
  config.distill.temperature = 0;
  Student run(test::world(), config, *files_ / "tokens.h5");
  std::int64_t without_prompt = 0;
  for (std::int64_t number = 0; number < 12; ++number)
    without_prompt +=
        run.dataset.prompt_length(data::SampleOrder(5, run.dataset.records()).record(number)) == 0;
  const StepBatches step = run.take(0);
  EXPECT_EQ(step.counts[data::Role::student_text].sequences, 12 - without_prompt);
  EXPECT_EQ(step.report[3].name, "left_out");
  EXPECT_EQ(step.report[3].value, static_cast<double>(without_prompt));

  // What the first sequence answers becomes the padding.
  std::int64_t answer = -1;
  for (const MicroBatch& batch : step.slots)
    if (run.grid.place().dp == 0 && answer < 0 && !batch.empty()) answer = text_of(batch, 0).back();
  run.grid.world().all_reduce(&answer, 1, comm::ReduceOp::max);
  const fs::path padded = *files_ / ("padded_" + small::name_of(GetParam()));
  if (run.grid.world().rank() == 0) {
    fs::copy(*files_ / "student", padded);
    auto spec = json::parse(files::read_text(padded / "config.json"));
    spec["pad_token_id"] = answer;
    files::write_text_atomically(padded / "config.json", spec.dump());
  }
  run.grid.world().barrier();
  config.model.path = padded;
  Student padding(test::world(), config, *files_ / "tokens.h5");
  const StepBatches fewer = padding.take(0);
  EXPECT_LT(fewer.counts[data::Role::student_text].sequences, 12 - without_prompt);
  EXPECT_GT(fewer.report[3].value, static_cast<double>(without_prompt));
  EXPECT_EQ(fewer.counts[data::Role::student_text].sequences, 12 - fewer.report[3].value);
  for (const MicroBatch& batch : fewer.slots)
    for (std::size_t s = 0; s < static_cast<std::size_t>(batch.sequences()); ++s)
      EXPECT_NE(text_of(batch, s).back(), answer);
}

// A head's rows beyond the tokenizer have no text: no answer has them, and none is lost for it.
TEST_P(OnPolicy, AnswersAreOfTheTokenizersIds) {
  constexpr std::int32_t kIds = 60;  // of 503
  const fs::path tokens = *files_ / ("few_ids_" + small::name_of(GetParam()) + ".h5");
  if (test::world().rank() == 0) testing::write_tokens(tokens, 12, 5, 16, kIds, 3);
  test::world().barrier();
  TrainConfig config = this->config(DistillMethod::mixed);
  config.distill.lambda = 1;
  config.distill.temperature = 3;
  Student run(test::world(), config, tokens);
  std::int64_t without_prompt = 0;
  for (std::int64_t r = 0; r < 12; ++r) without_prompt += run.dataset.prompt_length(r) == 0;
  const StepBatches step = run.take(0);
  EXPECT_EQ(step.counts[data::Role::student_text].sequences, 12 - without_prompt);
  for (const MicroBatch& batch : step.slots)
    for (std::size_t s = 0; s < static_cast<std::size_t>(batch.sequences()); ++s)
      for (const std::int32_t id : text_of(batch, s)) EXPECT_LT(id, kIds);
}

TEST_P(OnPolicy, RefusesDataWithoutPrompts) {
  const fs::path plain = *files_ / ("plain_" + small::name_of(GetParam()) + ".h5");
  if (test::world().rank() == 0) {
    data::TokenFileInfo info;
    info.vocab_size = small::kVocab;
    info.template_name = "text";
    info.tokenizer = info.template_text = "0000000000000000";
    data::TokenFileWriter writer(plain, info);
    writer.append(std::vector<std::int32_t>{1, 2, 3}, 0);
    writer.finish("plain");
  }
  test::world().barrier();
  testing::expect_error(
      ErrorKind::data, [&] { Student(test::world(), config(DistillMethod::mixed), plain); },
      "no record has a prompt");
}

std::string name_of(const ::testing::TestParamInfo<comm::GridShape>& info) {
  return small::name_of(info.param);
}

INSTANTIATE_TEST_SUITE_P(Grids, OnPolicy,
                         ::testing::ValuesIn(small::grids(small::launched_ranks())), name_of);

}  // namespace
}  // namespace fathom::train
