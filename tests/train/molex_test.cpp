// MoLEx: the same loss and gradients on every grid of one stage, the limits that are LoRA, and
// decoding with keys and values of two layers.

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/train/golden_step.h"
#include "tests/train/teacher_forcing.h"

namespace fathom::train {
namespace {

using golden_step::expect_same;
using golden_step::Trained;
using methods::adapters::Kind;

class Molex : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  static TrainConfig config(const comm::GridShape& grid, Kind kind = Kind::molex) {
    TrainConfig config = golden_step::config(grid);
    config.adapter.spec.kind = kind;
    config.adapter.spec.rank = 3;
    if (kind == Kind::molex) {
      config.adapter.spec.own_share = 0.6;
      config.adapter.spec.balance = 2;
    }
    return config;
  }

  // Products that are not zero, and gates that tell tokens apart.
  static void disturb(Engine& engine) {
    golden_step::randomise(engine, "lora_B", 0.3);
    golden_step::randomise(engine, "molex.gate", 1);
  }

  Trained train(comm::Communicator& world, const TrainConfig& config) {
    return golden_step::train(world, *device_, config, disturb,
                              golden_step::unlike_micro_batches());
  }

  std::unique_ptr<Device> device_ = test::make_device(std::size_t{1} << 28);
};

TEST_P(Molex, SameLossAndGradientsAsOnOneRank) {
  const auto alone = comm::self_communicator();
  TrainConfig one = config({}), here = config(GetParam());
  for (TrainConfig* each : {&one, &here}) {
    each->dropout = {.embedding = 0.1, .residual = 0.1, .attention = 0.1};
    each->adapter.spec.dropout = 0.1;
  }
  one.memory.recompute = Recompute::none;
  const Trained expected = train(*alone, one);
  EXPECT_EQ(expected.terms, 3) << "one micro-batch has nothing to learn from";
  for (const Recompute recompute : {Recompute::cheap, Recompute::block}) {
    here.memory.recompute = recompute;
    expect_same(train(test::world(), here), expected);
  }
}

// Where the own share is 1 the other layer adds nothing.
TEST_P(Molex, OwnShareOfOneIsLora) {
  TrainConfig molex = config(GetParam());
  molex.adapter.spec.own_share = 1;
  molex.adapter.spec.balance = 0;
  const Trained with = train(test::world(), molex),
                without = train(test::world(), config(GetParam(), Kind::lora));
  EXPECT_EQ(with.loss, without.loss);
  if (test::world().rank() != 0) return;
  for (const auto& [name, tensor] : without.gradients)
    EXPECT_EQ(with.gradients.at(name).values, tensor.values) << name;
}

// Prompts of many tokens, whose votes a few more do not change: teacher forcing, where each
// sequence decides by all of its tokens, gives the probabilities of decoding.
TEST_P(Molex, DecodingIsTeacherForcing) {
  comm::ProcessGrid grid(test::world(), GetParam(), *device_);
  Engine engine(*device_, grid, config(GetParam()), make_engine_plan(config(GetParam())), false);
  engine.load_initial_weights();
  disturb(engine);
  teacher_forcing::expect_same_as_decoding(engine, teacher_forcing::prompts(40));
}

// Those of one stage.
std::vector<comm::GridShape> grids() {
  std::vector<comm::GridShape> all = small::grids(small::launched_ranks());
  std::erase_if(all, [](const comm::GridShape& grid) { return grid.pp > 1; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(OneStage, Molex, ::testing::ValuesIn(grids()),
                         [](const auto& grid) { return small::name_of(grid.param); });

TEST(MolexPlan, RefusesStages) {
  TrainConfig config = golden_step::config({.pp = 2});
  config.adapter.spec.kind = Kind::molex;
  testing::expect_error(
      ErrorKind::config, [&] { make_engine_plan(config); }, "adapter.kind = molex", "grid.pp = 2",
      "frozen weights");
}

}  // namespace
}  // namespace fathom::train
