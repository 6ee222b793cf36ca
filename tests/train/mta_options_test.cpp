// What single options of MTA change, and what is counted of samples and spans that add nothing.

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/piece_copy.h"
#include "tests/train/mta_run.h"

namespace fathom::train::mta_run {
namespace {

using data::spans::SpanFile;
using data::spans::TokenSpans;

// A span file of the same text with nothing in it that begins before the response.
void keep_responses(const fs::path& tokens_file, const fs::path& from, const fs::path& to) {
  const auto tokens = data::TokenFile::open(tokens_file);
  const auto spans = SpanFile::open(from);
  data::spans::SpanFileWriter writer(to, spans.info());
  for (std::int64_t r = 0; r < spans.records(); ++r) {
    const TokenSpans all = spans.spans(r);
    TokenSpans kept;
    kept.prompt_length = all.prompt_length;
    for (const auto& word : all.words)
      if (word.begin >= all.prompt_length) kept.words.push_back(word);
    for (std::size_t i = 0; i < all.phrases.size(); ++i) {
      if (all.phrases[i].begin < all.prompt_length) continue;
      kept.phrases.push_back(all.phrases[i]);
      kept.kinds.push_back(all.kinds[i]);
    }
    writer.append(tokens.record(r).ids, kept);
  }
  writer.finish();
}

TEST_P(MtaTraining, RegionOfTheResponseLeavesOutSpansOfThePrompt) {
  const fs::path responses = *files_ / ("responses_" + small::name_of(GetParam()) + ".h5");
  if (test::world().rank() == 0)
    keep_responses(*files_ / "tokens.h5", *files_ / "spans.h5", responses);
  test::world().barrier();
  TrainConfig all = config("region_all"), option = config("region_response"),
              file = config("region_file");
  option.mta.span_region = methods::mta::SpanRegion::response;
  file.spans.train = responses;
  for (TrainConfig* one : {&all, &option, &file}) {
    one->run.steps = 2;
    train(test::world(), *one);
  }
  if (test::world().rank() != 0) return;
  EXPECT_EQ(steps(option), steps(file));
  EXPECT_NE(steps(option), steps(all));
}

using Values = std::map<std::string, std::vector<float>>;

// This rank's part of the student's parameters.
Values values_of(Engine& engine) {
  Values values;
  for (const model::Parameter& parameter : engine.student().parameters().parameters())
    for (const model::Piece& piece : parameter.pieces) {
      std::vector<float> part(static_cast<std::size_t>(piece.rows * piece.columns));
      model::piece_to_host(parameter, parameter.value, piece,
                           std::as_writable_bytes(std::span(part)));
      auto& all = values[parameter.name];
      all.insert(all.end(), part.begin(), part.end());
    }
  return values;
}

// The first update is the learning rate times what does not depend on it.
TEST_P(MtaTraining, ProjectorsHaveALearningRateOfTheirOwn) {
  std::vector<Values> before, after;
  for (const double rate : {0.0, 6e-3}) {  // 0: that of all, 3e-3
    TrainConfig one = config(rate > 0 ? "own_rate" : "same_rate");
    one.mta.projector_lr = rate;
    const auto device = test::make_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(test::world(), GetParam(), *device);
    Trainer trainer(*device, grid, one, make_engine_plan(one), {});
    before.push_back(values_of(trainer.engine()));
    trainer.step();
    after.push_back(values_of(trainer.engine()));
  }
  EXPECT_EQ(before[0], before[1]);
  std::int64_t projectors = 0;
  for (const auto& [name, start] : before[0]) {
    const std::vector<float>&same = after[0].at(name), &own = after[1].at(name);
    if (name.find("projector") == std::string::npos) {
      EXPECT_EQ(own, same) << name;
      continue;
    }
    ++projectors;
    for (std::size_t i = 0; i < start.size(); ++i) {
      const double moved = double{same[i]} - start[i], twice = double{own[i]} - start[i];
      // Each value is rounded once to f32.
      EXPECT_NEAR(twice, 2 * moved, 4 * 0x1p-24 * (std::abs(start[i]) + 6e-3)) << name;
      EXPECT_NE(moved, 0) << name;
    }
  }
  test::world().all_reduce(&projectors, 1, comm::ReduceOp::sum);
  EXPECT_GE(projectors, 3) << "one for each key layer, somewhere";
}

// Two steps are an epoch.
TEST_P(MtaTraining, SamplesThatAddNothingAreCounted) {
  const SpanFile spans = SpanFile::open(*files_ / "spans.h5");
  double without = 0;
  for (std::int64_t r = 0; r < spans.records(); ++r) without += spans.spans(r).phrases.empty();
  ASSERT_GT(without, 0);
  for (const auto& [granularity, expected] :
       {std::pair{methods::mta::Granularity::phrases, without},
        std::pair{methods::mta::Granularity::words, 0.0},
        std::pair{methods::mta::Granularity::adaptive, 0.0}}) {
    TrainConfig epoch = config("idle" + std::to_string(static_cast<int>(granularity)));
    epoch.run.steps = 2;
    epoch.mta.granularity = granularity;
    train(test::world(), epoch);
    if (test::world().rank() != 0) continue;
    double idle = 0;
    for (const json& step : steps(epoch)) idle += step.at("more").at("mta_idle").get<double>();
    EXPECT_EQ(idle, expected) << static_cast<int>(granularity);
  }
}

TEST_P(MtaTraining, SpansBeyondTheCutAreCountedOnce) {
  TrainConfig cut = config("cut");
  cut.run.steps = 2;
  cut.data.context = 16;
  cut.data.overlong = Overlong::truncate;
  const auto of_file = expect_same_on_one_rank(cut);
  cut.run.dir += "_found";
  cut.spans.train.clear();
  cut.spans.model = FATHOM_SPAN_MODEL;
  const auto found = expect_same_on_one_rank(cut);
  if (test::world().rank() != 0) return;
  EXPECT_EQ(found, of_file);
  EXPECT_GT(of_file.front().at("more").at("spans_beyond_cut").get<double>(), 0);
}

}  // namespace
}  // namespace fathom::train::mta_run
