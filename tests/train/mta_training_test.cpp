// Whole runs with MTA on English text: the same whether spans come from a file or are found on the
// spot, on every grid, and after a stop; the method's parameters are kept and not exported.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../mpi_main.h"
#include "core/log.h"
#include "data/spans/open_span_source.h"
#include "data_tools/spans/build_spans.h"
#include "tests/support/expect_error.h"
#include "tests/train/small_distillation.h"
#include "train/trainer.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kTokenizer = fs::path(FATHOM_SOURCE_DIR) / "data_tools/samples/shakespeare";

/// Questions and answers of different lengths, the shortest without a phrase.
void write_english(const fs::path& file) {
  const auto tokenizer = data::Tokenizer::load(kTokenizer);
  data::TokenFileInfo info;
  info.vocab_size = tokenizer->vocab_size();
  info.tokenizer = tokenizer->fingerprint();
  data::TokenFileWriter writer(file, info);
  const std::pair<const char*, const char*> texts[] = {
      {"Who comes there?", " The king of this old castle has come home."},
      {"What did the lady say?", " She had quickly told her brother the whole truth."},
      {"Why?", " So."},
      {"Where is my sword?", " Your good sword is lying under that heavy table."},
      {"Speak, friend.", " We will never leave the city without our brave soldiers."},
      {"What news?", " The small boat was finally found."}};
  for (int copy = 0; copy < 4; ++copy)
    for (const auto& [question, answer] : texts) {
      std::vector<std::int32_t> ids = tokenizer->encode(question).ids;
      const auto prompt = static_cast<std::int32_t>(ids.size());
      for (const std::int32_t id : tokenizer->encode(answer).ids) ids.push_back(id);
      writer.append(ids, prompt);
    }
  writer.finish("test");
}

void write_spans(const fs::path& tokens, const fs::path& file) {
  const auto extractor = std::make_shared<const data::spans::Extractor>(FATHOM_SPAN_MODEL);
  data_tools::build_spans(data::TokenFile::open(tokens), *data::Tokenizer::load(kTokenizer),
                          data::spans::find_with(extractor, {}),
                          data::spans::describe(*extractor, {}), file, 1,
                          [](const data_tools::SpanProgress&) {});
}

class MtaTraining : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  static void SetUpTestSuite() {
    logger().set_quiet(true);
    files_ = new testing::SharedDirectory(test::world(), [](const fs::path& folder) {
      const int vocab = data::Tokenizer::load(kTokenizer)->vocab_size();
      testing::write_model(folder / "student", {.vocab = vocab}, 7);
      testing::write_model(
          folder / "teacher",
          {.layers = 6, .hidden = 96, .heads = 8, .kv_heads = 4, .ffn = 152, .vocab = vocab}, 11);
      for (const auto& entry : fs::directory_iterator(kTokenizer))
        fs::copy(entry.path(), folder / "student", fs::copy_options::skip_existing);
      write_english(folder / "tokens.h5");
      write_spans(folder / "tokens.h5", folder / "spans.h5");
    });
  }
  static void TearDownTestSuite() {
    test::world().barrier();
    delete files_;
  }

  static TrainConfig config(const std::string& run, const comm::GridShape& grid) {
    TrainConfig config = small::config(files_->path(), grid);
    config.run.dir = *files_ / run;
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
    const auto device = test::make_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(
        world, {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp}, *device);
    Trainer trainer(*device, grid, config, make_engine_plan(config), {});
    trainer.run();
  }

  /// Loss and its parts of every step.
  static std::vector<json> steps(const TrainConfig& config) {
    std::ifstream file(fs::path(config.run.dir) / "metrics.jsonl");
    std::vector<json> lines;
    for (std::string text; std::getline(file, text);) {
      const json line = json::parse(text);
      if (line.at("kind") == "step")
        lines.push_back({{"loss", line.at("loss")},
                         {"parts", line.at("parts")},
                         {"idle", line.at("more").at("mta_idle")}});
    }
    return lines;
  }

  inline static testing::SharedDirectory* files_ = nullptr;
};

std::string run_name(const std::string& name) {
  return name + "_" + small::name_of(MtaTraining::GetParam());
}

TEST_P(MtaTraining, IsTheSameOnOneRank) {
  const TrainConfig together = config(run_name("together"), GetParam());
  train(test::world(), together);
  if (test::world().rank() != 0) return;
  TrainConfig alone = config(run_name("alone"), {});
  train(*comm::self_communicator(), alone);
  const std::vector<json> ours = steps(together), theirs = steps(alone);
  ASSERT_EQ(ours.size(), 4u);
  ASSERT_EQ(theirs.size(), 4u);
  for (std::size_t step = 0; step < 4; ++step) {
    const double bound = step == 0 ? 1e-6 : 1e-5;
    for (const auto& [name, value] : theirs[step].at("parts").items()) {
      const double expected = value.get<double>();
      EXPECT_NEAR(ours[step].at("parts").at(name).get<double>(), expected, bound * expected)
          << name << ", step " << step;
      EXPECT_TRUE(std::isfinite(expected) && expected > 0) << name;
    }
    EXPECT_EQ(ours[step].at("idle"), theirs[step].at("idle"));
  }
}

TEST_P(MtaTraining, SpansFoundOnTheSpotAreThoseOfTheFile) {
  const TrainConfig cached = config(run_name("cached"), GetParam());
  train(test::world(), cached);
  TrainConfig found = config(run_name("found"), GetParam());
  found.spans.train.clear();
  found.spans.model = FATHOM_SPAN_MODEL;
  train(test::world(), found);
  if (test::world().rank() != 0) return;
  EXPECT_EQ(steps(found), steps(cached));
}

TEST_P(MtaTraining, GoesOnAsIfItHadNotStopped) {
  const TrainConfig straight = config(run_name("straight"), GetParam());
  train(test::world(), straight);
  TrainConfig stopped = config(run_name("stopped"), GetParam());
  stopped.run.steps = 2;
  train(test::world(), stopped);
  stopped.run.steps = 4;
  stopped.run.resume = Resume::must;
  train(test::world(), stopped);
  if (test::world().rank() != 0) return;
  EXPECT_EQ(steps(stopped), steps(straight));
}

// The projectors and their moments lie elsewhere then, and each in other pieces.
TEST_P(MtaTraining, GoesOnOnAnotherGridToRounding) {
  const auto grids = small::grids(small::launched_ranks());
  const auto at = std::find(grids.begin(), grids.end(), GetParam());
  const comm::GridShape& next =
      grids[static_cast<std::size_t>(at - grids.begin() + 1) % grids.size()];
  TrainConfig stopped = config(run_name("moved"), GetParam());
  stopped.run.steps = 2;
  train(test::world(), stopped);
  TrainConfig moved = config(run_name("moved"), next);
  moved.run.resume = Resume::must;
  train(test::world(), moved);
  if (test::world().rank() != 0) return;
  const TrainConfig straight = config(run_name("unmoved"), {});
  train(*comm::self_communicator(), straight);
  const std::vector<json> ours = steps(moved), theirs = steps(straight);
  ASSERT_EQ(ours.size(), 4u);
  for (std::size_t step = 0; step < 4; ++step)
    for (const auto& [name, value] : theirs[step].at("parts").items()) {
      const double expected = value.get<double>();
      EXPECT_NEAR(ours[step].at("parts").at(name).get<double>(), expected, 1e-5 * expected)
          << name << ", step " << step;
    }
}

TEST_P(MtaTraining, RefusesSpansOfOtherText) {
  TrainConfig other = config(run_name("other"), GetParam());
  if (test::world().rank() == 0) testing::write_tokens(*files_ / "other.h5", 24, 5, 30, 300, 9);
  test::world().barrier();
  other.data.train = *files_ / "other.h5";
  testing::expect_error(
      ErrorKind::data, [&] { train(test::world(), other); }, "spans.h5");
}

std::string name_of(const ::testing::TestParamInfo<comm::GridShape>& info) {
  return small::name_of(info.param);
}

INSTANTIATE_TEST_SUITE_P(AllGrids, MtaTraining,
                         ::testing::ValuesIn(small::grids(small::launched_ranks())), name_of);

}  // namespace
}  // namespace fathom::train
