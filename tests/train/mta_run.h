#pragma once

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../mpi_main.h"
#include "core/log.h"
#include "data/spans/open_span_source.h"
#include "data_tools/spans/build_spans.h"
#include "tests/train/small_distillation.h"
#include "train/pair_source.h"
#include "train/trainer.h"

/// Whole runs with MTA on English text.
namespace fathom::train::mta_run {

namespace fs = std::filesystem;
using nlohmann::json;

/// Questions and answers of different lengths, the third without a phrase.
inline constexpr std::pair<const char*, const char*> kTexts[] = {
    {"Who comes there?", " The king of this old castle has come home."},
    {"What did the lady say?", " She had quickly told her brother the whole truth."},
    {"Why?", " So."},
    {"Where is my sword?", " Your good sword is lying under that heavy table."},
    {"Speak, friend.", " We will never leave the city without our brave soldiers."},
    {"What news?", " The small boat was finally found."}};

/// So many copies of the questions, each with its own answer or with that of the question
/// `answers_from` later.
inline void write_english(const fs::path& file, int copies, std::size_t answers_from = 0) {
  const auto tokenizer = data::Tokenizer::load(testing::shakespeare());
  data::TokenFileInfo info;
  info.vocab_size = tokenizer->vocab_size();
  info.tokenizer = tokenizer->fingerprint();
  data::TokenFileWriter writer(file, info);
  for (int copy = 0; copy < copies; ++copy)
    for (std::size_t i = 0; i < std::size(kTexts); ++i) {
      std::vector<std::int32_t> ids = tokenizer->encode(kTexts[i].first).ids;
      const auto prompt = static_cast<std::int32_t>(ids.size());
      const char* answer = kTexts[(i + answers_from) % std::size(kTexts)].second;
      for (const std::int32_t id : tokenizer->encode(answer).ids) ids.push_back(id);
      writer.append(ids, prompt);
    }
  writer.finish("test");
}

inline void write_spans(const fs::path& tokens, const fs::path& file) {
  const auto extractor = std::make_shared<const data::spans::Extractor>(FATHOM_SPAN_MODEL);
  data_tools::build_spans(
      data::TokenFile::open(tokens), *data::Tokenizer::load(testing::shakespeare()),
      data::spans::find_with(extractor, {}), data::spans::describe(*extractor, {}), file, 1,
      [](const data_tools::SpanProgress&) {});
}

/// tokens.h5 with its spans, eval.h5, pairs/ and both models; on every grid of the launched ranks.
class MtaTraining : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  static void SetUpTestSuite() {
    logger().set_quiet(true);
    files_ = new testing::SharedDirectory(test::world(), [](const fs::path& folder) {
      testing::write_model(folder / "student", {.vocab = 1024}, 7);
      testing::write_model(
          folder / "teacher",
          {.layers = 6, .hidden = 96, .heads = 8, .kv_heads = 4, .ffn = 152, .vocab = 1024}, 11);
      testing::copy_shakespeare(folder / "student");
      write_english(folder / "tokens.h5", 4);
      write_spans(folder / "tokens.h5", folder / "spans.h5");
      write_english(folder / "eval.h5", 1);
      fs::create_directory(folder / "pairs");
      write_english(pair_files(folder / "pairs").chosen, 4);
      write_english(pair_files(folder / "pairs").rejected, 4, 1);
    });
  }
  static void TearDownTestSuite() {
    test::world().barrier();
    delete files_;
  }

  /// Four steps of two to an epoch, the spans being in a file.
  static TrainConfig config(const std::string& run, const comm::GridShape& grid = GetParam()) {
    TrainConfig config = small::config(files_->path(), grid);
    config.run.dir = *files_ / (run + "_" + small::name_of(GetParam()));
    config.run.steps = 4;
    config.run.quiet = true;
    config.data.train = *files_ / "tokens.h5";
    config.log.tensorboard = false;
    config.log.progress = ProgressMode::off;
    config.schedule.kind = ScheduleKind::constant;
    config.mta.enabled = true;
    config.mta.student_layers = {1, 3, 4};
    config.mta.teacher_layers = {4, 5, 6};
    config.spans.train = *files_ / "spans.h5";
    return config;
  }

  static void train(comm::Communicator& world, const TrainConfig& config) {
    ASSERT_TRUE(violations(config).empty()) << violations(config).front().rule;
    const auto device = test::make_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(
        world, {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp}, *device);
    Trainer trainer(*device, grid, config, make_engine_plan(config), {});
    trainer.run();
  }

  /// Of every step, on rank 0: the loss, its parts, and what was counted.
  static std::vector<json> steps(const TrainConfig& config) {
    std::ifstream file(fs::path(config.run.dir) / "metrics.jsonl");
    std::vector<json> lines;
    for (std::string text; std::getline(file, text);) {
      const json line = json::parse(text);
      if (line.at("kind") != "step") continue;
      json more = line.at("more");
      for (const char* key :
           {"spans_exposed_s", "spans_parsing_s", "generation_seconds", "stage_bytes"})
        more.erase(key);
      lines.push_back({{"loss", line.at("loss")}, {"parts", line.at("parts")}, {"more", more}});
    }
    return lines;
  }

  /// Up to the rounding of f32 sums in another order, which training amplifies.
  static void expect_same(const std::vector<json>& actual, const std::vector<json>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t step = 0; step < expected.size(); ++step) {
      const double bound = step == 0 ? 1e-6 : 1e-5;
      for (const auto& [name, part] : expected[step].at("parts").items()) {
        const double value = part.get<double>();
        EXPECT_NEAR(actual[step].at("parts").at(name).get<double>(), value, bound * value)
            << name << ", step " << step;
        if (name.starts_with("mta")) {
          EXPECT_TRUE(std::isfinite(value) && value > 0) << name;
        }
      }
      EXPECT_EQ(actual[step].at("more"), expected[step].at("more")) << "step " << step;
    }
  }

  /// Runs it on the grid and on one rank; the steps of the latter, on rank 0.
  static std::vector<json> expect_same_on_one_rank(const TrainConfig& together) {
    train(test::world(), together);
    if (test::world().rank() != 0) return {};
    TrainConfig alone = together;
    alone.grid = {};
    alone.run.dir += "_alone";
    train(*comm::self_communicator(), alone);
    expect_same(steps(together), steps(alone));
    EXPECT_EQ(steps(alone).size(), static_cast<std::size_t>(together.run.steps));
    return steps(alone);
  }

  inline static testing::SharedDirectory* files_ = nullptr;
};

}  // namespace fathom::train::mta_run
