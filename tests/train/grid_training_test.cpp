// A model divided over any grid trains as the undivided one, which every rank runs beside it: the
// gradient's norm, the loss after some steps, and the same bits in every copy of a parameter.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <map>

#include "../mpi_main.h"
#include "model/family.h"
#include "train/hf_weights.h"
#include "train/probe.h"

namespace fathom::train {
namespace {

constexpr std::int64_t kPrompt = 8;

struct Case {
  std::string model;
  comm::GridShape grid;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.model + "_tp" + std::to_string(info.param.grid.tp) + "_pp" +
                     std::to_string(info.param.grid.pp) + "_dp" +
                     std::to_string(info.param.grid.dp);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // Tests are listed before MPI starts; the main checks that this is the number of ranks.
  const int ranks = std::atoi(std::getenv("FATHOM_TEST_RANKS"));
  for (const char* model : {"gpt2", "opt-postln", "llama", "llama3", "qwen2"})
    for (int tp = 1; tp <= ranks; ++tp)
      for (int pp = 1; pp <= ranks; ++pp)
        if (ranks % (tp * pp) == 0)
          all.push_back({model, {.dp = ranks / tp / pp, .pp = pp, .tp = tp}});
  return all;
}

TrainConfig make_config(const std::string& folder, const comm::GridShape& grid) {
  TrainConfig config;
  config.model.path = folder;
  config.grid.tp = grid.tp;
  config.grid.pp = grid.pp;
  config.grid.dp = grid.dp;
  config.optim.weight_decay = 0.1;
  config.loss.chunk_rows = 16;
  return config;
}

// Between ranks MPI copies straight out of another process's memory, so that it cannot be guarded.
std::unique_ptr<Device> make_test_device() {
  constexpr std::size_t kLimit = std::size_t{256} << 20;
  return test::make_device(kLimit);
}

// A model on a grid, with its batch.
class Training {
 public:
  // The first `prompt` tokens of each sequence are not supervised.
  Training(comm::Communicator& world, const TrainConfig& config, std::int64_t prompt = 0)
      : device_(make_test_device()),
        grid_(world, {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp}, *device_),
        engine_(*device_, grid_, config, make_engine_plan(config), true),
        batch_(read_padded_batch(config.model.path + "/inputs.safetensors")) {
    engine_.load_initial_weights();
    for (std::int64_t row = 0; row < batch_.rows; ++row)
      std::fill_n(batch_.labels.begin() + row * batch_.length, prompt, data::kNoLabel);
  }

  // Loss per token of the golden batch; gradients are left in their buffers.
  double forward_backward(std::int64_t step = 0, std::vector<data::MicroBatch> more = {}) {
    auto slots = mine();
    for (data::MicroBatch& batch : more) slots.push_back(std::move(batch));
    const auto sums = engine_.forward_backward(
        std::move(slots), data::RoleCounts({.label_tokens = label_tokens()}), step);
    EXPECT_EQ(sums.tokens, label_tokens());
    return sums.cross_entropy / static_cast<double>(sums.tokens);
  }

  std::vector<data::MicroBatch> mine() {
    return rows_of_rank(batch_, grid_, engine_.student().spec().vocab);
  }
  std::int64_t label_tokens() const {
    return data::from_padded(batch_.ids, batch_.mask, batch_.labels, batch_.rows, batch_.length,
                             static_cast<std::int32_t>(engine_.plan().student.vocab))
        .label_tokens;
  }

  double gradient_norm() { return engine_.optimizer().gradient_norm(grid_); }
  Engine& engine() { return engine_; }
  const std::vector<model::Parameter>& parameters() {
    return engine_.student().parameters().parameters();
  }

 private:
  std::unique_ptr<Device> device_;
  comm::ProcessGrid grid_;
  Engine engine_;
  PaddedBatch batch_;
};

using TensorOf = std::function<Tensor(const model::Parameter&)>;

std::string bits_of(const std::vector<float>& values) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const float value : values) {
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    hash = (hash ^ word) * 1099511628211ull;
  }
  return std::to_string(hash);
}

// Expects all ranks that hold a rectangle of a parameter to hold the same bits of it. Collective.
// Returns how many rectangles have several holders.
int expect_equal_copies(Training& run, const TensorOf& tensor_of, const std::string& what) {
  std::ostringstream mine;
  for (const model::Parameter& parameter : run.parameters()) {
    if (!parameter.trainable()) continue;
    const auto values = model::pieces_to_host(parameter, tensor_of(parameter));
    for (std::size_t i = 0; i < values.size(); ++i)
      mine << parameter.name << '[' << parameter.pieces[i].row << ',' << parameter.pieces[i].column
           << "] " << bits_of(values[i]) << '\n';
  }
  std::map<std::string, std::pair<std::string, int>> seen;  // bits, holders
  int rank = 0;
  for (const std::string& text : test::world().all_gather_text(mine.str())) {
    std::istringstream in(text);
    std::string piece, bits;
    while (in >> piece >> bits) {
      auto& [first, holders] = seen[piece];
      if (++holders == 1) first = bits;
      EXPECT_EQ(bits, first) << what << " of " << piece << " on rank " << rank;
    }
    ++rank;
  }
  int shared = 0;
  for (const auto& [piece, entry] : seen) shared += entry.second > 1 ? 1 : 0;
  return shared;
}

// A line for each parameter.
std::string gradient_bits(Training& run) {
  std::string lines;
  for (const model::Parameter& parameter : run.parameters())
    if (parameter.trainable())
      lines += parameter.name + ' ' + bits_of(to_host(parameter.grad())) + '\n';
  return lines;
}

Tensor value_of(const model::Parameter& parameter) {
  return parameter.value;
}
Tensor gradient_of(const model::Parameter& parameter) {
  return parameter.grad();
}

// A test's two runs: on the grid, and alone.
class GridTraining : public testing::TestWithParam<Case> {
 protected:
  std::string folder() const {
    return std::string(FATHOM_TEST_DATA) + "/golden/models/" + GetParam().model;
  }
  const comm::GridShape& shape() const { return GetParam().grid; }
  TrainConfig config() const { return make_config(folder(), shape()); }
  TrainConfig config_alone() const { return make_config(folder(), {}); }

  static TrainConfig adapted(TrainConfig config, methods::adapters::Kind kind) {
    auto& spec = config.adapter.spec;
    spec.kind = kind;
    spec.rank = 4;
    spec.tied = false;
    if (spec.on_linear_layers()) {
      spec.targets = {"all-linear"};
      spec.dropout = 0.2;
    }
    return config;
  }

  // Freezes what the model has of these: families call their embeddings by different names.
  void freeze(TrainConfig& config, const std::vector<std::string>& patterns) const {
    const auto groups = model::parameter_groups(read_model_spec(folder()));
    for (const std::string& pattern : patterns)
      if (std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
            return NamePatterns{{pattern}}.match(group.front());
          }))
        config.model.freeze.patterns.push_back(pattern);
  }

  // Sums of the same terms in another order: a few roundings of f32.
  static void expect_same(double actual, double expected) {
    EXPECT_NEAR(actual, expected, 5e-6 * expected);
  }

  void expect_same_norm_on_all_ranks(double norm) {
    double bounds[2] = {norm, -norm};
    test::world().all_reduce(bounds, 2, comm::ReduceOp::max);
    EXPECT_EQ(bounds[0], -bounds[1]);
  }

  void expect_trains_as_alone(const TrainConfig& divided, const TrainConfig& whole,
                              std::int64_t prompt = 0) {
    Training grid(test::world(), divided, prompt), alone(*self_, whole, prompt);
    for (int step = 0; step < 3; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      expect_same(grid.forward_backward(step), alone.forward_backward(step));
      expect_equal_copies(grid, gradient_of, "gradient");
      const double norm = grid.gradient_norm(), norm_alone = alone.gradient_norm();
      expect_same(norm, norm_alone);
      expect_same_norm_on_all_ranks(norm);
      grid.engine().update(1e-3, clip_factor(norm, 1.0));
      alone.engine().update(1e-3, clip_factor(norm_alone, 1.0));
    }
    const int shared = expect_equal_copies(grid, value_of, "value");
    if (test::world().size() > 1 && shape().pp == 1) {
      EXPECT_GT(shared, 0);
    }
    const Optimizer& optimizer = grid.engine().optimizer();
    const auto first = [&](const model::Parameter& p) { return optimizer.first_moment(p); };
    const auto second = [&](const model::Parameter& p) { return optimizer.second_moment(p); };
    expect_equal_copies(grid, first, "first moment");
    expect_equal_copies(grid, second, "second moment");
  }

  std::unique_ptr<comm::Communicator> self_ = comm::self_communicator();
};

TEST_P(GridTraining, OwnersTogetherHoldTheModelOnce) {
  Training run(test::world(), config());
  std::int64_t owned = 0;
  for (const model::Parameter& parameter : run.parameters())
    if (parameter.owned) owned += parameter.value.elements();
  test::world().all_reduce(&owned, 1, comm::ReduceOp::sum);
  EXPECT_EQ(owned, run.engine().plan().student.parameters() * shape().dp);
}

TEST_P(GridTraining, ThreeStepsAreThoseOfOneRank) {
  expect_trains_as_alone(config(), config_alone());
}

// Masks depend on the sample and the element alone, so that they too are those of one rank.
TEST_P(GridTraining, WithDropout) {
  TrainConfig divided = config(), whole = config_alone();
  for (TrainConfig* each : {&divided, &whole})
    each->dropout = {.embedding = 0.1, .residual = 0.1, .attention = 0.1};
  expect_trains_as_alone(divided, whole);
}

TEST_P(GridTraining, FrozenEmbeddingAndFirstLayers) {
  TrainConfig divided = config(), whole = config_alone();
  for (TrainConfig* each : {&divided, &whole})
    freeze(*each, {"*embed*", "*wte*", "*wpe*", "*.0.*", "*.1.*"});
  expect_trains_as_alone(divided, whole);
  divided.memory.recompute = Recompute::block;
  expect_trains_as_alone(divided, whole);
}

// Adapters on a frozen model, dropout on their inputs included. Prompts, for edits of their states.
TEST_P(GridTraining, Adapters) {
  using methods::adapters::Kind;
  for (const Kind kind :
       {Kind::lora, Kind::dora, Kind::vera, Kind::loreft, Kind::parallel_control}) {
    SCOPED_TRACE(methods::adapters::to_string(kind));
    TrainConfig divided = adapted(config(), kind), whole = adapted(config_alone(), kind);
    expect_trains_as_alone(divided, whole, kPrompt);
    divided.memory.recompute = Recompute::block;
    expect_trains_as_alone(divided, whole, kPrompt);
  }
}

// With the model in bf16, in the second step: in the first, one factor of each product is zero.
TEST_P(GridTraining, RecomputingAdaptersChangesNothing) {
  using methods::adapters::Kind;
  for (const Kind kind :
       {Kind::lora, Kind::dora, Kind::vera, Kind::loreft, Kind::parallel_control, Kind::molex}) {
    if (kind == Kind::molex && config().grid.pp > 1) continue;
    SCOPED_TRACE(methods::adapters::to_string(kind));
    std::string gradients;
    for (const Recompute recompute : {Recompute::none, Recompute::cheap, Recompute::block}) {
      TrainConfig each = adapted(config(), kind);
      each.model.frozen_dtype = DType::bf16;
      each.memory.recompute = recompute;
      Training run(test::world(), each, kPrompt);
      run.forward_backward();
      run.engine().update(1e-2, 1);
      run.forward_backward(1);
      if (gradients.empty()) gradients = gradient_bits(run);
      EXPECT_EQ(gradient_bits(run), gradients);
    }
  }
}

// Of a stack whose first layers are frozen, only the inputs of the others are kept.
TEST_P(GridTraining, FrozenBlocksAreNotRecomputed) {
  TrainConfig each = config_alone();
  each.memory.recompute = Recompute::block;
  freeze(each, {"*embed*", "*wte*", "*wpe*", "*project_in*", "*.0.*", "*.1.*"});
  Training run(*self_, each);
  run.forward_backward();
  const std::int64_t tokens = run.mine()[0].tokens(), hidden = run.engine().student().spec().hidden;
  EXPECT_EQ(run.engine().work().saved_bytes().at("recompute"),
            static_cast<std::size_t>(2 * tokens * hidden) * sizeof(float));
}

// What is made again gives the same gradients, to the bit, with dropout as well; the more, the less
// is kept.
TEST_P(GridTraining, RecomputingChangesNothing) {
  std::string gradients;
  std::size_t saved = 0;
  for (const Recompute recompute : {Recompute::none, Recompute::cheap, Recompute::block}) {
    TrainConfig each = config();
    each.dropout = {.embedding = 0.1, .residual = 0.1, .attention = 0.1};
    each.memory.recompute = recompute;
    Training run(test::world(), each);
    run.forward_backward();
    std::size_t bytes = 0;
    for (const auto& [name, part] : run.engine().work().saved_bytes()) bytes += part;
    if (recompute == Recompute::none) {
      gradients = gradient_bits(run);
    } else {
      EXPECT_EQ(gradient_bits(run), gradients);
      EXPECT_TRUE(bytes < saved || saved == 0) << bytes << " after " << saved;
    }
    saved = bytes;
  }
}

// A micro-batch in which nothing is supervised adds exactly nothing.
TEST_P(GridTraining, AMicroBatchWithoutLabels) {
  Training run(test::world(), config());
  run.forward_backward();
  const std::string before = gradient_bits(run);
  run.engine().optimizer().clear_gradients();
  auto unlabelled = run.mine();
  for (data::MicroBatch& batch : unlabelled) {
    std::fill(batch.labels.begin(), batch.labels.end(), data::kNoLabel);
    batch.label_tokens = 0;
  }
  run.forward_backward(0, unlabelled);
  EXPECT_EQ(gradient_bits(run), before);
}

// Of a step whose gradients are zero only the decay of weights is left, and norms and biases have
// none.
TEST_P(GridTraining, OnlyMatricesDecay) {
  Training run(test::world(), config());
  std::vector<std::vector<float>> before;
  for (const model::Parameter& parameter : run.parameters())
    before.push_back(to_host(parameter.value));
  run.engine().optimizer().clear_gradients();
  run.engine().update(0.5, 1);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const model::Parameter& parameter = run.parameters()[i];
    const float kept = parameter.shape.dims() == 2 ? 0.95f : 1.0f;  // 1 - 0.5 * 0.1
    const auto after = to_host(parameter.value);
    for (std::size_t j = 0; j < after.size(); ++j)
      ASSERT_FLOAT_EQ(after[j], kept * before[i][j]) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, GridTraining, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace fathom::train
