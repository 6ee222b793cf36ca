// Runs with MTA are the same whether spans come from a file or are found on the spot, on every
// grid, on the student's own answers and on pairs, and after a stop; the method's parameters are
// kept and not exported.

#include <algorithm>
#include <cmath>

#include "checkpoints/checkpoint_tools.h"
#include "core/parameter_names.h"
#include "tests/support/expect_error.h"
#include "tests/train/mta_run.h"

namespace fathom::train::mta_run {
namespace {

// On four ranks the grids of two axes: those of one are what two ranks show.
std::vector<comm::GridShape> tried_grids() {
  std::vector<comm::GridShape> all = small::grids(small::launched_ranks());
  if (small::launched_ranks() == 4)
    std::erase_if(all, [](const comm::GridShape& g) { return std::max({g.dp, g.pp, g.tp}) == 4; });
  return all;
}

TEST_P(MtaTraining, IsTheSameOnOneRank) {
  expect_same_on_one_rank(config("together"));
}

TEST_P(MtaTraining, OnItsOwnAnswersIsTheSameOnOneRank) {
  TrainConfig own = config("own");
  own.run.eval_every = 2;
  own.data.eval = *files_ / "eval.h5";
  own.spans.model = FATHOM_SPAN_MODEL;  // the file has the records of the training set
  own.distill.method = DistillMethod::adaptive;
  own.distill.init_threshold = 0.6;
  own.distill.capacity = 9;
  own.distill.max_new = 8;
  double share = 0;
  for (const json& step : expect_same_on_one_rank(own))
    share += step["more"]["on_policy"].get<double>();
  if (test::world().rank() == 0) {
    EXPECT_GT(share, 0);
    EXPECT_LT(share, 4) << "in some micro-batches";
  }
}

TEST_P(MtaTraining, OnPairsIsTheSameOnOneRank) {
  TrainConfig pairs = config("pairs");
  pairs.data.train.clear();
  pairs.spans.train.clear();
  pairs.spans.model = FATHOM_SPAN_MODEL;
  pairs.loss = {.ce_weight = 0, .kd_weight = 1, .chunk_rows = 16};
  pairs.distill.method = DistillMethod::contrastive;
  pairs.distill.pairs = *files_ / "pairs";
  for (const json& step : expect_same_on_one_rank(pairs))
    EXPECT_TRUE(step.at("parts").contains("mta_dsa") && step.at("parts").contains("skew_kl"));
}

TEST_P(MtaTraining, SpansFoundOnTheSpotAreThoseOfTheFile) {
  const TrainConfig cached = config("cached");
  train(test::world(), cached);
  TrainConfig found = config("found");
  found.spans.train.clear();
  found.spans.model = FATHOM_SPAN_MODEL;
  train(test::world(), found);
  if (test::world().rank() != 0) return;
  EXPECT_EQ(steps(found), steps(cached));
}

TEST_P(MtaTraining, GoesOnAsIfItHadNotStopped) {
  const TrainConfig straight = config("straight");
  train(test::world(), straight);
  for (const char* where : {"here", "alone"}) {
    TrainConfig stopped = config(std::string("stopped_") + where);
    stopped.run.steps = 2;
    train(test::world(), stopped);
    stopped.run.steps = 4;
    stopped.run.resume = Resume::must;
    if (std::string(where) == "here") {
      train(test::world(), stopped);
      if (test::world().rank() == 0) {
        EXPECT_EQ(steps(stopped), steps(straight));
      }
    } else if (test::world().rank() == 0) {
      stopped.grid = {};
      train(*comm::self_communicator(), stopped);
      expect_same(steps(stopped), steps(straight));
    }
  }
  test::world().barrier();
}

TEST_P(MtaTraining, ProjectorsAreKeptAndNotExported) {
  TrainConfig once = config("once");
  once.run.steps = 1;
  train(test::world(), once);
  if (test::world().rank() != 0) return;
  const auto self = comm::self_communicator();
  auto reader = checkpoints::CheckpointReader::open_latest(*self, once.run.dir, {.verify = true});
  ASSERT_TRUE(reader.has_value());
  for (const int layer : once.mta.student_layers) {
    const std::string name = str(kMethodPrefix, "mta.projector.", layer);
    EXPECT_NO_THROW(reader->at(name + ".weight", {96, 64}));
    EXPECT_NO_THROW(reader->at(name + ".bias", {96}));
  }
  const fs::path folder = fs::path(once.run.dir) / "export";
  fs::create_directory(folder);
  checkpoints::export_safetensors(*reader, folder);
  const checkpoints::SafetensorsReader exported(folder), before(*files_ / "student");
  EXPECT_EQ(exported.tensors().size(), before.tensors().size());
  for (const auto& [name, entry] : before.tensors()) EXPECT_TRUE(exported.contains(name)) << name;
}

// The projectors and their moments lie elsewhere then, and each in other pieces.
TEST_P(MtaTraining, GoesOnOnAnotherGridToRounding) {
  const auto grids = tried_grids();
  const auto at = std::find(grids.begin(), grids.end(), GetParam());
  const comm::GridShape& next =
      grids[static_cast<std::size_t>(at - grids.begin() + 1) % grids.size()];
  TrainConfig stopped = config("moved");
  stopped.run.steps = 2;
  train(test::world(), stopped);
  TrainConfig moved = config("moved", next);
  moved.run.resume = Resume::must;
  train(test::world(), moved);
  if (test::world().rank() != 0) return;
  const TrainConfig straight = config("unmoved", comm::GridShape{});
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
  TrainConfig other = config("other");
  if (test::world().rank() == 0)
    testing::write_tokens(*files_ / "other.h5", 24, 5, 30, 300, 9, testing::shakespeare());
  test::world().barrier();
  other.data.train = *files_ / "other.h5";
  testing::expect_error(
      ErrorKind::data, [&] { train(test::world(), other); }, "spans.h5");
}

std::string name_of(const ::testing::TestParamInfo<comm::GridShape>& info) {
  return small::name_of(info.param);
}

INSTANTIATE_TEST_SUITE_P(AllGrids, MtaTraining, ::testing::ValuesIn(tried_grids()), name_of);

}  // namespace
}  // namespace fathom::train::mta_run
