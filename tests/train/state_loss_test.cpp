// A loss on hidden states whose partners lie anywhere is the same on every grid: values, gradients
// (through what it does to the training), its own parameters, and what is exported.

#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "core/parameter_names.h"
#include "data/batch_plan.h"
#include "tests/train/small_distillation.h"
#include "train/engine.h"

namespace fathom::train {
namespace {

using methods::KeyState;
using methods::KeyStates;
using methods::Side;
using methods::Site;

constexpr int kSteps = 10;
constexpr std::int64_t kWidth = 64;  // of the student; the teacher's first columns are the goal

/// sum over rows of |v * student - teacher|^2 / 2 over the step's tokens, v trained; a site of
/// several student states takes their sum.
class GapLoss : public methods::StateLoss {
 public:
  GapLoss(Device& device, comm::Communicator& dp, std::vector<Site> sites)
      : device_(device), dp_(dp), sites_(std::move(sites)), scales_(sites_.size()) {}

  std::vector<Site> sites() const override { return sites_; }

  void declare(const std::vector<std::size_t>& sites, bool owned,
               model::ParameterSet& parameters) override {
    for (const std::size_t site : sites) {
      model::PartDeclaration part;
      part.name = std::string(kMethodPrefix) + "gap." + std::to_string(site);
      part.shape = {kWidth};
      part.pieces = {{.rows = kWidth, .columns = 1}};
      part.local_rows = kWidth;
      part.owned = owned;
      part.init_value = 1;
      parameters.declare(&scales_[site], {kWidth}, {part});
    }
  }

  void begin(const std::vector<data::MicroBatch>& batches) override {
    sums_.assign(sites_.size(), 0.0);
    std::int64_t tokens = 0;
    for (const data::MicroBatch& batch : batches) tokens += batch.tokens();
    dp_.all_reduce(&tokens, 1, comm::ReduceOp::sum);
    tokens_ = static_cast<double>(tokens);
  }

  void apply(autograd::Tape* tape, int, std::size_t site, const KeyStates& states,
             model::Readback&) override {
    std::vector<autograd::Var> students;
    std::vector<float> goal;
    for (const KeyState key : sites_[site].states) {
      if (key.side == Side::student)
        students.push_back(states.student(key.layer));
      else
        goal = to_host(states.teacher(key.layer).slice_columns(0, kWidth));
    }
    std::vector<float> sum(goal.size(), 0.0f);
    for (const autograd::Var& student : students) {
      const std::vector<float> values = to_host(student.value);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    }
    const std::vector<float> v = to_host(scales_[site].value);
    std::vector<float> dx(sum.size()), dv(kWidth, 0.0f);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const std::size_t c = i % kWidth;
      const double gap = static_cast<double>(v[c]) * sum[i] - goal[i];
      sums_[site] += gap * gap / 2;
      dx[i] = static_cast<float>(gap * v[c] / tokens_);
      dv[c] += static_cast<float>(gap * sum[i] / tokens_);
    }
    scales_[site].slot->add(Tensor::from_host(device_, {kWidth}, dv));
    const Tensor gradient =
        Tensor::from_host(device_, {static_cast<std::int64_t>(dx.size()) / kWidth, kWidth}, dx);
    for (const autograd::Var& student : students)
      if (student.slot)
        tape->record("gap", {gradient}, [slot = student.slot, gradient] { slot->add(gradient); });
  }

  std::vector<methods::StateTerm> terms() const override {
    std::vector<methods::StateTerm> terms;
    for (std::size_t i = 0; i < sums_.size(); ++i)
      terms.push_back({"gap." + std::to_string(i), 1.0, sums_[i], tokens_});
    return terms;
  }

 private:
  Device& device_;
  comm::Communicator& dp_;
  std::vector<Site> sites_;
  std::vector<autograd::Var> scales_;
  std::vector<double> sums_;
  double tokens_ = 1;
};

Site pair(std::int64_t student, std::int64_t teacher) {
  return {.states = {{Side::student, student}, {Side::teacher, teacher}}};
}

// Partners near and far, in both directions, the last states, and states that go to the heads.
std::vector<Site> sites() {
  return {
      pair(0, 0),
      pair(1, 5),
      pair(3, 1),
      pair(2, 3),
      pair(4, 6),
      {.states = {{Side::student, 0}, {Side::student, 2}, {Side::teacher, 2}}, .at_head = true}};
}

struct Point {
  std::vector<double> terms;
  double gradient_norm = 0;
};

std::vector<Point> train(comm::Communicator& world, const TrainConfig& config, Device& device,
                         const data::TrainBatches& batches) {
  comm::ProcessGrid grid(world, {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp},
                         device);
  Engine::Losses losses;
  losses.push_back(std::make_unique<GapLoss>(device, grid.dp(), sites()));
  Engine engine(device, grid, config, make_engine_plan(config), true, std::move(losses));
  engine.load_initial_weights();
  std::vector<Point> curve;
  const data::Share share =
      data::share_of(config.batch.micro_batches, grid.place().dp, grid.shape().dp);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<data::MicroBatch> slots;
    for (std::int64_t slot = 0; slot < share.slots; ++slot)
      slots.push_back(batches.slot(step, share, slot));
    engine.forward_backward(std::move(slots), data::RoleCounts(batches.counts(step)), step);
    Point point;
    for (const methods::StateTerm& term : engine.state_terms())
      point.terms.push_back(term.sum / term.count);
    point.gradient_norm = engine.optimizer().gradient_norm(grid);
    engine.optimizer().step(config.optim.lr, clip_factor(point.gradient_norm, 1.0));
    curve.push_back(point);
  }
  return curve;
}

class StateLossGrid : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::SharedDirectory(test::world(), [](const std::filesystem::path& folder) {
      small::write_models(folder);
      testing::write_tokens(folder / "tokens.h5", 240, 2, 40, small::kVocab, 3);
    });
  }
  static void TearDownTestSuite() {
    test::world().barrier();
    delete files_;
  }
  static std::vector<Point> run(comm::Communicator& world, const TrainConfig& config) {
    const auto device = test::make_device(std::size_t{1} << 28);
    const data::Dataset set(
        std::make_shared<const data::TokenFile>(data::TokenFile::open(*files_ / "tokens.h5")), 64,
        data::Overlong::refuse);
    const data::TrainBatches batches(set, {config.batch.micro_batches, config.batch.micro_batch},
                                     5);
    return train(world, config, *device, batches);
  }

  inline static testing::SharedDirectory* files_ = nullptr;
};

TEST_P(StateLossGrid, IsTheSameAsOnOneRank) {
  TrainConfig config = small::config(files_->path(), GetParam());
  const std::vector<Point> together = run(test::world(), config);
  config.grid = {};
  const std::vector<Point> alone = run(*comm::self_communicator(), config);
  for (std::size_t step = 0; step < alone.size(); ++step) {
    const double bound = step == 0 ? 1e-6 : 1e-5;
    ASSERT_EQ(together[step].terms.size(), sites().size());
    for (std::size_t i = 0; i < alone[step].terms.size(); ++i)
      EXPECT_NEAR(together[step].terms[i], alone[step].terms[i], bound * alone[step].terms[i])
          << "site " << i << ", step " << step;
    EXPECT_NEAR(together[step].gradient_norm, alone[step].gradient_norm,
                1e-5 * alone[step].gradient_norm)
        << "step " << step;
  }
  EXPECT_LT(alone.back().terms[0], alone.front().terms[0]) << "it learns";
}

TEST_P(StateLossGrid, RecomputationOfBlocksKeepsIt) {
  TrainConfig config = small::config(files_->path(), GetParam());
  config.memory.recompute = Recompute::none;
  const std::vector<Point> kept = run(test::world(), config);
  config.memory.recompute = Recompute::block;
  const std::vector<Point> again = run(test::world(), config);
  for (std::size_t step = 0; step < kept.size(); ++step) {
    EXPECT_EQ(again[step].terms, kept[step].terms) << "step " << step;
    EXPECT_EQ(again[step].gradient_norm, kept[step].gradient_norm) << "step " << step;
  }
}

std::string name_of(const ::testing::TestParamInfo<comm::GridShape>& info) {
  return small::name_of(info.param);
}

INSTANTIATE_TEST_SUITE_P(AllGrids, StateLossGrid,
                         ::testing::ValuesIn(small::grids(small::launched_ranks())), name_of);

}  // namespace
}  // namespace fathom::train
