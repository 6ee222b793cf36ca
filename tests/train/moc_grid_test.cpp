// Mixture of control does not depend on the grid: the same micro-batches give the same loss and
// gradients on every grid of this rank count as on one rank; a fresh one is the frozen model; and
// decoding keeps what the prompt decided.

#include <gtest/gtest.h>

#include "generate/generator.h"
#include "tests/train/golden_step.h"

namespace fathom::train {
namespace {

namespace moc = methods::moc;
using golden_step::expect_same;
using golden_step::Trained;
using moc::BalanceScope;

class MocGrid : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  static TrainConfig config(const moc::Spec& spec, const comm::GridShape& grid) {
    TrainConfig config = golden_step::config(grid);
    config.moc = spec;
    return config;
  }

  // Controls that do something: B is zero at first.
  static void disturb(Engine& engine) { golden_step::randomise(engine, "moc.layers.", 0.3); }

  // Four sequences, of which the last has nothing to learn from, in equal shares.
  static std::vector<data::MicroBatch> shares(int count) {
    std::vector<data::MicroBatch> all(static_cast<std::size_t>(count));
    std::int32_t next = 7;
    for (int s = 0; s < 4; ++s) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(5 + 4 * s));
      for (std::int32_t& id : ids) id = next = (next * 37 + 11) % small::kVocab;
      const auto prompt = static_cast<std::int32_t>(s == 3 ? ids.size() : 3);
      data::append(all[static_cast<std::size_t>(s * count / 4)], {ids, prompt}, 0, s);
    }
    return all;
  }

  Trained train(comm::Communicator& world, const moc::Spec& spec, const comm::GridShape& shape,
                Recompute recompute, const std::vector<data::MicroBatch>& all) {
    TrainConfig asked = config(spec, shape);
    asked.memory.recompute = recompute;
    return golden_step::train(world, *device_, asked, disturb, all);
  }

  std::unique_ptr<Device> device_ = test::make_device(std::size_t{1} << 28);
};

TEST_P(MocGrid, SameLossAndGradientsAsOnOneRank) {
  // A heavy balance term, so that its share of the gradient is seen.
  for (const moc::Spec& spec :
       {moc::Spec{.enabled = true, .rank = 3, .alpha = 0.6, .top_k = 2, .balance = 2},
        moc::Spec{.enabled = true,
        .rank = 3,
        .alpha = 0.6,
        .sites = moc::Sites::both,
        .gate = moc::Gate::separate,
        .softmax = moc::SoftmaxOrder::softmax_topk,
        .scope = moc::Scope::sequence,
        .tokens = moc::Tokens::prompt,
        .balance = 2}})
    for (const Recompute recompute : {Recompute::none, Recompute::block}) {
      const auto alone = comm::self_communicator();
      expect_same(
          train(test::world(), spec, GetParam(), recompute, golden_step::unlike_micro_batches()),
          train(*alone, spec, {}, Recompute::none, golden_step::unlike_micro_batches()));
    }
}

// The whole step decides, whichever replicas have its sequences.
TEST_P(MocGrid, AStepThatDecidesTogether) {
  const moc::Spec mean{.enabled = true,
                       .rank = 3,
                       .alpha = 0.6,
                       .top_k = 2,
                       .scope = moc::Scope::global,
                       .gate_input = moc::GateInput::rmsnorm,
                       .balance = 2,
                       .balance_scope = BalanceScope::global};
  moc::Spec votes = mean;
  votes.softmax = moc::SoftmaxOrder::softmax_topk;
  votes.aggregate = moc::Aggregate::mode;
  votes.gate_input = moc::GateInput::raw;
  for (const moc::Spec& spec : {mean, votes})
    for (const Recompute recompute : {Recompute::none, Recompute::block}) {
      const auto alone = comm::self_communicator();
      expect_same(train(test::world(), spec, GetParam(), recompute, shares(GetParam().dp)),
                  train(*alone, spec, {}, Recompute::none, shares(1)));
    }
}

// A gate that learns from the balance alone learns the same however the task's loss is averaged.
TEST_P(MocGrid, TheBalanceHasItsOwnDenominator) {
  const auto gate = [&](Normalise normalise) {
    TrainConfig asked = config({.enabled = true, .rank = 3, .top_k = 1, .balance = 2}, GetParam());
    asked.loss.normalise = normalise;
    return golden_step::train(test::world(), *device_, asked, disturb,
                              golden_step::unlike_micro_batches())
        .gradients;
  };
  const auto tokens = gate(Normalise::tokens), sequences = gate(Normalise::sequences);
  if (test::world().rank() != 0) return;
  EXPECT_EQ(tokens.at("method.moc.gate.weight").values,
            sequences.at("method.moc.gate.weight").values);
  EXPECT_NE(tokens.at("method.moc.layers.0.mlp.B").values,
            sequences.at("method.moc.layers.0.mlp.B").values);
}

TEST_P(MocGrid, AFreshOneIsTheFrozenModel) {
  comm::ProcessGrid grid(test::world(), GetParam(), *device_);
  const auto states = [&](const moc::Spec& spec) {
    const TrainConfig asked = config(spec, GetParam());
    Engine engine(*device_, grid, asked, make_engine_plan(asked), false);
    engine.load_initial_weights();
    std::vector<std::vector<float>> seen;
    engine.work().tap = [&](int, std::int64_t, const autograd::Var& state) {
      seen.push_back(to_host(state.value));
    };
    engine.evaluate({golden_step::unlike_micro_batches()[0]});
    return seen;
  };
  EXPECT_EQ(states({.enabled = true}), states({}));
}

// In evaluation neighbours change a record's loss only where a batch decides together.
TEST_P(MocGrid, NeighboursInABatch) {
  comm::ProcessGrid grid(test::world(), GetParam(), *device_);
  const data::MicroBatch whole = shares(1)[0];
  std::vector<data::MicroBatch> apart;
  for (std::int64_t s = 0; s < whole.sequences(); ++s)
    apart.push_back(data::slice(whole, s, s + 1));
  const auto difference = [&](moc::Scope scope) {
    const TrainConfig asked = config(
        {.enabled = true, .rank = 3, .alpha = 0.4, .top_k = 2, .eval_scope = scope}, GetParam());
    Engine engine(*device_, grid, asked, make_engine_plan(asked), false);
    engine.load_initial_weights();
    disturb(engine);
    const double alone = engine.evaluate(apart).cross_entropy;
    return std::abs(engine.evaluate({whole}).cross_entropy - alone) / alone;
  };
  EXPECT_LT(difference(moc::Scope::sequence), 1e-5);
  EXPECT_GT(difference(moc::Scope::microbatch), 1e-3);
}

// Teacher forcing with the prompt's decisions gives the probabilities of decoding.
TEST_P(MocGrid, DecodingKeepsThePromptsDecisions) {
  comm::ProcessGrid grid(test::world(), GetParam(), *device_);
  const TrainConfig asked =
      config({.enabled = true, .rank = 3, .alpha = 0.4, .top_k = 2, .tokens = moc::Tokens::prompt},
             GetParam());
  Engine engine(*device_, grid, asked, make_engine_plan(asked), false);
  engine.load_initial_weights();
  disturb(engine);
  generate::GeneratorOptions options;
  options.max_new = 8;
  generate::Generator generator(engine.student(), grid, options);
  const std::vector<std::int32_t> prompt = {5, 80, 31, 222, 7}, other = {17, 3, 400};
  const auto results = generator.generate({{prompt, 0}, {other, 1}});
  const auto check = [&](const std::vector<std::int32_t>& start, const auto& result) {
    std::vector<std::int32_t> ids = start;
    ids.insert(ids.end(), result.ids.begin(), result.ids.end());
    data::MicroBatch batch;
    data::append(batch, {ids, static_cast<std::int32_t>(start.size())}, 0, 0);
    const model::LossSums sums = engine.evaluate({batch});
    double logprobs = 0;
    for (const float logprob : result.logprobs) logprobs += logprob;
    EXPECT_EQ(sums.correct, sums.tokens);
    EXPECT_NEAR(-sums.cross_entropy / grid.shape().dp, logprobs,
                5e-5 * static_cast<double>(result.ids.size()));
  };
  ASSERT_EQ(results.size(), 2u);
  check(prompt, results[0]);
  check(other, results[1]);
}

INSTANTIATE_TEST_SUITE_P(AllGrids, MocGrid,
                         ::testing::ValuesIn(small::grids(small::launched_ranks())),
                         [](const auto& grid) { return small::name_of(grid.param); });

}  // namespace
}  // namespace fathom::train
