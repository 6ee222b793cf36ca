#pragma once

#include <functional>
#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "tests/support/golden.h"
#include "tests/train/small_distillation.h"
#include "train/probe.h"

/// One step of a golden LLaMA with something beside it whose balance is a term of the loss: the
/// same on every grid.
namespace fathom::train::golden_step {

inline const std::string kModel = test::golden("models/llama");

inline TrainConfig config(const comm::GridShape& grid) {
  TrainConfig config;
  config.model.path = kModel;
  config.grid.tp = grid.tp;
  config.grid.pp = grid.pp;
  config.grid.dp = grid.dp;
  config.loss.chunk_rows = 16;
  return config;
}

/// Rows of the golden batch as four unlike micro-batches; the third has nothing to learn from.
inline std::vector<data::MicroBatch> unlike_micro_batches() {
  const PaddedBatch batch = read_padded_batch(kModel + "/inputs.safetensors");
  const data::MicroBatch whole = data::from_padded(batch.ids, batch.mask, batch.labels, batch.rows,
                                                   batch.length, small::kVocab);
  std::vector<data::MicroBatch> all = {data::slice(whole, 0, 2), data::slice(whole, 2, 3),
                                       data::slice(whole, 1, 2), data::slice(whole, 1, 3)};
  std::fill(all[2].labels.begin(), all[2].labels.end(), data::kNoLabel);
  all[2].label_tokens = 0;
  return all;
}

/// New values, uniform in [-bound, bound), for the parameters whose names have this in them.
inline void randomise(Engine& engine, const std::string& part, double bound) {
  for (const model::Parameter& parameter : engine.student().parameters().parameters()) {
    if (parameter.name.find(part) == std::string::npos) continue;
    model::Parameter random = parameter;
    random.init_std = 0;
    random.init_bound = bound;
    for (const model::Piece& piece : parameter.pieces) {
      std::vector<float> values(static_cast<std::size_t>(piece.rows * piece.columns));
      model::RandomWeights(5).read(random, piece, values.data());
      model::piece_from_host(parameter, parameter.value, piece, values);
    }
  }
  engine.weights_changed();
}

struct Trained {
  double loss = 0, balance = 0, norm = 0;
  double terms = 0;                              ///< that the balance is the mean of
  std::map<std::string, WholeTensor> gradients;  ///< on the world's rank 0
};

/// A step over all micro-batches, which the replicas share. `prepare` sets what training starts
/// from.
inline Trained train(comm::Communicator& world, Device& device, const TrainConfig& config,
                     const std::function<void(Engine&)>& prepare,
                     const std::vector<data::MicroBatch>& all) {
  comm::ProcessGrid grid(world, {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp},
                         device);
  Engine engine(device, grid, config, make_engine_plan(config), true);
  engine.load_initial_weights();
  prepare(engine);
  data::BatchCounts counts;
  for (const data::MicroBatch& batch : all) counts += data::count(batch);
  const data::Share share =
      data::share_of(static_cast<std::int64_t>(all.size()), grid.place().dp, config.grid.dp);
  std::vector<data::MicroBatch> slots(static_cast<std::size_t>(share.slots));
  for (std::int64_t j = share.begin; j < share.end; ++j)
    slots[static_cast<std::size_t>(j - share.begin)] = all[static_cast<std::size_t>(j)];
  Trained result;
  const auto sums = engine.forward_backward(std::move(slots), data::RoleCounts(counts), 0);
  result.loss = sums.cross_entropy / static_cast<double>(sums.tokens);
  if (!engine.state_terms().empty()) {
    const methods::StateTerm& term = engine.state_terms().front();
    result.terms = term.count;
    result.balance = term.sum / term.count;
  }
  result.norm = engine.optimizer().gradient_norm(grid);
  std::vector<Fragment> fragments;
  if (grid.place().dp == 0)
    for (const model::Parameter& parameter : engine.student().parameters().parameters())
      if (parameter.trainable())
        append_fragments(parameter, parameter.grad(), parameter.name, fragments);
  result.gradients = collect(world, fragments);
  return result;
}

/// Up to the rounding of f32 sums in another order.
inline void expect_same(const Trained& here, const Trained& one) {
  EXPECT_NEAR(here.loss, one.loss, 1e-5 * one.loss);
  EXPECT_NEAR(here.balance, one.balance, 1e-5 * one.balance);
  EXPECT_EQ(here.terms, one.terms);
  EXPECT_NEAR(here.norm, one.norm, 1e-5 * one.norm);
  if (test::world().rank() != 0) return;
  ASSERT_EQ(here.gradients.size(), one.gradients.size());
  for (const auto& [name, tensor] : one.gradients) {
    EXPECT_LT(test::distance(here.gradients.at(name).values, tensor.values),
              1e-5 * test::norm(tensor.values) + 1e-6 * one.norm)
        << name;
  }
}

}  // namespace fathom::train::golden_step
