// Mixture of control does not depend on the grid: the same micro-batches give the same loss and
// gradients on every grid of this rank count as on one rank; a fresh one is the frozen model; and
// decoding keeps what the prompt decided.

#include <cmath>
#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "generate/generator.h"
#include "tests/train/small_distillation.h"
#include "train/probe.h"

namespace fathom::train {
namespace {

namespace moc = methods::moc;

const std::string kModel = std::string(FATHOM_TEST_DATA) + "/golden/models/llama";

struct Trained {
  double loss = 0, balance = 0, norm = 0;
  std::map<std::string, WholeTensor> gradients;  ///< on the world's rank 0
};

class MocGrid : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  TrainConfig config(const moc::Spec& spec, const comm::GridShape& grid) {
    TrainConfig config;
    config.model.path = kModel;
    config.moc = spec;
    config.grid.tp = grid.tp;
    config.grid.pp = grid.pp;
    config.grid.dp = grid.dp;
    config.loss.chunk_rows = 16;
    return config;
  }

  // Rows of the golden batch as four unlike micro-batches; the third has nothing to learn from.
  std::vector<data::MicroBatch> micro_batches() {
    const PaddedBatch batch = read_padded_batch(kModel + "/inputs.safetensors");
    const data::MicroBatch whole = data::from_padded(batch.ids, batch.mask, batch.labels,
                                                     batch.rows, batch.length, small::kVocab);
    std::vector<data::MicroBatch> all = {data::slice(whole, 0, 2), data::slice(whole, 2, 3),
                                         data::slice(whole, 1, 2), data::slice(whole, 1, 3)};
    std::fill(all[2].labels.begin(), all[2].labels.end(), data::kNoLabel);
    all[2].label_tokens = 0;
    return all;
  }

  // Controls that do something: B is zero at first.
  void disturb(Engine& engine) {
    for (const model::Parameter& parameter : engine.student().parameters().parameters()) {
      if (!parameter.name.starts_with("method.moc.layers.")) continue;
      model::Parameter random = parameter;
      random.init_bound = 0.3;
      for (const model::Piece& piece : parameter.pieces) {
        std::vector<float> values(static_cast<std::size_t>(piece.rows * piece.columns));
        model::RandomWeights(5).read(random, piece, values.data());
        model::piece_from_host(parameter, parameter.value, piece, values);
      }
    }
    engine.weights_changed();
  }

  Trained train(comm::Communicator& world, const moc::Spec& spec, const comm::GridShape& shape,
                Recompute recompute) {
    comm::ProcessGrid grid(world, shape);
    TrainConfig asked = config(spec, shape);
    asked.memory.recompute = recompute;
    Engine engine(*device_, grid, asked, make_engine_plan(asked), true);
    engine.load_initial_weights();
    disturb(engine);
    data::BatchCounts counts;
    const auto all = micro_batches();
    for (const data::MicroBatch& batch : all) counts += data::count(batch);
    const data::Share share = data::share_of(4, grid.place().dp, shape.dp);
    std::vector<data::MicroBatch> slots(static_cast<std::size_t>(share.slots));
    for (std::int64_t j = share.begin; j < share.end; ++j)
      slots[static_cast<std::size_t>(j - share.begin)] = all[static_cast<std::size_t>(j)];
    Trained result;
    const auto sums = engine.forward_backward(std::move(slots), data::RoleCounts(counts), 0);
    result.loss = sums.cross_entropy / static_cast<double>(sums.tokens);
    const methods::StateTerm& term = engine.state_terms().at(0);
    EXPECT_EQ(term.count, 3);
    result.balance = term.sum / term.count;
    result.norm = engine.optimizer().gradient_norm(grid);
    std::vector<Fragment> fragments;
    if (grid.place().dp == 0)
      for (const model::Parameter& parameter : engine.student().parameters().parameters())
        if (parameter.trainable())
          append_fragments(parameter, parameter.grad(), parameter.name, fragments);
    result.gradients = collect(world, fragments);
    return result;
  }

  std::unique_ptr<Device> device_ = make_cpu_device(std::size_t{1} << 28);
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
      const Trained one = train(*alone, spec, {}, Recompute::none);
      const Trained here = train(test::world(), spec, GetParam(), recompute);
      EXPECT_NEAR(here.loss, one.loss, 1e-5 * one.loss);
      EXPECT_NEAR(here.balance, one.balance, 1e-5 * one.balance);
      EXPECT_NEAR(here.norm, one.norm, 1e-5 * one.norm);
      if (test::world().rank() != 0) continue;
      ASSERT_EQ(here.gradients.size(), one.gradients.size());
      for (const auto& [name, tensor] : one.gradients) {
        const std::vector<float>& ours = here.gradients.at(name).values;
        double difference = 0, size = 0;
        for (std::size_t i = 0; i < ours.size(); ++i) {
          difference += std::pow(static_cast<double>(ours[i]) - tensor.values[i], 2);
          size += std::pow(static_cast<double>(tensor.values[i]), 2);
        }
        EXPECT_LT(std::sqrt(difference), 1e-5 * std::sqrt(size) + 1e-6 * one.norm) << name;
      }
    }
}

TEST_P(MocGrid, AFreshOneIsTheFrozenModel) {
  comm::ProcessGrid grid(test::world(), GetParam());
  const auto states = [&](const moc::Spec& spec) {
    const TrainConfig asked = config(spec, GetParam());
    Engine engine(*device_, grid, asked, make_engine_plan(asked), false);
    engine.load_initial_weights();
    std::vector<std::vector<float>> seen;
    engine.work().tap = [&](int, std::int64_t, const autograd::Var& state) {
      seen.push_back(to_host(state.value));
    };
    engine.evaluate({micro_batches()[0]});
    return seen;
  };
  EXPECT_EQ(states({.enabled = true}), states({}));
}

// Teacher forcing with the prompt's decisions gives the probabilities of decoding.
TEST_P(MocGrid, DecodingKeepsThePromptsDecisions) {
  comm::ProcessGrid grid(test::world(), GetParam());
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
