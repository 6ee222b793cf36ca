// Mixture of control on frozen golden models, on every grid of this rank count: decisions, states,
// loss and its balance term, gradients and three AdamW steps as plain PyTorch computed them.

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../mpi_main.h"
#include "checkpoints/safetensors.h"
#include "tests/support/golden.h"
#include "tests/train/small_distillation.h"
#include "train/hf_weights.h"
#include "train/probe.h"

namespace fathom::train {
namespace {

using checkpoints::SafetensorsReader;
using nlohmann::json;
namespace moc = methods::moc;

struct Case {
  std::string name;
  comm::GridShape grid;
  Recompute recompute = Recompute::cheap;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  static const char* const words[] = {"none", "cheap", "block"};
  std::string name = info.param.name + "_" + small::name_of(info.param.grid) + "_" +
                     words[static_cast<int>(info.param.recompute)];
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"gpt2-both-shared-k2", "llama-attn-k2", "llama-both-mode-k2",
                           "llama-both-separate-k2-pre", "llama-both-sequence-k1",
                           "llama-both-shared-k1-pre", "llama-both-shared-k2", "llama-ffn-k1"})
    for (const comm::GridShape& grid : small::grids(small::launched_ranks())) {
      all.push_back({name, grid});
      if (std::string(name).ends_with("shared-k2") || std::string(name).ends_with("k1"))
        all.push_back({name, grid, Recompute::block});
    }
  return all;
}

// Distance relative to the size of `expected`; the whole gradient's norm keeps tiny tensors sane.
void expect_near(const std::vector<float>& actual, const std::vector<float>& expected,
                 double tolerance, double whole, const std::string& name) {
  EXPECT_LT(test::distance(actual, expected), tolerance * test::norm(expected) + 1e-6 * whole)
      << name;
}

// "method.moc.layers.0.mlp.A" is "layers.0.ffn.A" in the golden files.
std::string golden_name(std::string name) {
  name = name.substr(std::string("method.moc.").size());
  for (const auto& [ours, theirs] :
       {std::pair{"attention", "attn"}, {"mlp", "ffn"}, {".weight", ""}})
    if (const std::size_t at = name.find(ours); at != std::string::npos)
      name.replace(at, std::string(ours).size(), theirs);
  return name;
}

class GoldenWeights : public model::WeightSource {
 public:
  GoldenWeights(const std::string& folder, const model::WeightSource& base)
      : params_(folder + "/params.safetensors"), base_(base) {}
  void read(const model::Parameter& parameter, const model::Piece& piece,
            float* out) const override {
    if (!parameter.name.starts_with("method.moc.")) return base_.read(parameter, piece, out);
    params_.read(golden_name(parameter.name),
                 {{piece.row, piece.column}, {piece.rows, piece.columns}}, out);
  }

 private:
  SafetensorsReader params_;
  const model::WeightSource& base_;
};

moc::Spec spec_of(const json& options) {
  moc::Spec spec{.enabled = true,
                 .rank = options.at("rank"),
                 .alpha = options.at("alpha"),
                 .top_k = options.at("topk")};
  const json& sites = options.at("sites");
  if (sites.size() == 1)
    spec.sites = sites.at(0) == "attn" ? moc::Sites::attention : moc::Sites::mlp;
  spec.gate = options.at("gate") == "shared" ? moc::Gate::shared : moc::Gate::separate;
  if (options.at("softmax") == "softmax_topk") spec.softmax = moc::SoftmaxOrder::softmax_topk;
  if (options.at("aggregate") == "mode") spec.aggregate = moc::Aggregate::mode;
  if (options.at("scope") == "sequence") spec.scope = moc::Scope::sequence;
  spec.balance = options.at("balance");
  spec.gate_decay = true;  // as the golden optimizer, which decays everything
  return spec;
}

class MocParity : public ::testing::TestWithParam<Case> {
 protected:
  MocParity()
      : folder_(test::golden("methods/moc-" + GetParam().name)),
        device_(test::make_device(std::size_t{1} << 28)),
        grid_(test::world(), GetParam().grid, *device_) {
    std::ifstream(folder_ + "/expected.json") >> expected_;
    const json& options = expected_.at("options");
    model_ = test::golden("models/" + options.at("base").get<std::string>());
    config_.model.path = model_;
    config_.moc = spec_of(options);
    config_.grid.tp = GetParam().grid.tp;
    config_.grid.pp = GetParam().grid.pp;
    config_.grid.dp = GetParam().grid.dp;
    config_.memory.recompute = GetParam().recompute;
    config_.loss.chunk_rows = 16;
    config_.optim = {
        .lr = 1e-3, .beta2 = 0.95, .weight_decay = 0.1, .decay = Decay::all, .clip = 1.0};
    const EnginePlan plan = make_engine_plan(config_);
    engine_ = std::make_unique<Engine>(*device_, grid_, config_, plan, true);
    engine_->load_initial_weights();
    model::load_parameters(engine_->student().parameters(),
                           GoldenWeights(folder_, HfWeights(model_)));
    engine_->weights_changed();
    const PaddedBatch batch = read_padded_batch(model_ + "/inputs.safetensors");
    batch_ = data::from_padded(batch.ids, batch.mask, batch.labels, batch.rows, batch.length,
                               static_cast<std::int32_t>(plan.student.vocab));
    length_ = batch.length;
  }

  // A step of as many micro-batches as replicas, each the golden batch: the same loss and gradient
  // as of one.
  double step(std::int64_t number) {
    data::BatchCounts counts;
    for (int i = 0; i < grid_.shape().dp; ++i) counts += data::count(batch_);
    const model::LossSums sums =
        engine_->forward_backward({batch_}, data::RoleCounts(counts), number);
    const double task = sums.cross_entropy / static_cast<double>(sums.tokens);
    const methods::StateTerm& balance = engine_->state_terms().at(0);
    balance_ = balance.sum / balance.count;
    return task + balance.weight * balance_;
  }

  // All gradients, on rank 0.
  std::map<std::string, WholeTensor> gradients() {
    std::vector<Fragment> fragments;
    if (grid_.place().dp == 0)
      for (const model::Parameter& parameter : engine_->student().parameters().parameters())
        if (parameter.trainable())
          append_fragments(parameter, parameter.grad(), parameter.name, fragments);
    return collect(test::world(), fragments);
  }

  std::string folder_, model_;
  json expected_;
  std::unique_ptr<Device> device_;
  comm::ProcessGrid grid_;
  TrainConfig config_;
  std::unique_ptr<Engine> engine_;
  data::MicroBatch batch_;
  std::int64_t length_ = 0;
  double balance_ = 0;
};

TEST_P(MocParity, Decisions) {
  const SafetensorsReader outputs(folder_ + "/expected.safetensors");
  std::int64_t decisions = 0;
  engine_->moc()->observe = [&](std::int64_t layer, model::BlockSite site,
                                const moc::Decision& decision) {
    for (std::size_t g = 0; g < decision.groups.size(); ++g) {
      const std::string name = "route." + std::to_string(layer) +
                               (site == model::BlockSite::attention ? ".attn." : ".ffn.") +
                               std::to_string(g);
      const moc::Choice& choice = decision.groups[g];
      const std::vector<float> weights = outputs.read_f32(name + ".weight");
      const auto experts = outputs.read_i64(name + ".index");
      ASSERT_EQ(experts.size(), choice.experts.size()) << name;
      for (std::size_t j = 0; j < experts.size(); ++j) {
        EXPECT_EQ(choice.experts[j], experts[j]) << name;
        EXPECT_NEAR(choice.weights[j], weights[j], 2e-6) << name;
      }
      ++decisions;
    }
  };
  step(0);
  grid_.pp().all_reduce(&decisions, 1, comm::ReduceOp::sum);
  std::int64_t expected = 0;
  for (const auto& [name, entry] : outputs.tensors()) expected += name.ends_with(".index");
  EXPECT_EQ(decisions, expected);
}

TEST_P(MocParity, States) {
  const SafetensorsReader outputs(folder_ + "/expected.safetensors");
  int compared = 0;
  engine_->work().tap = [&](int, std::int64_t layer, const autograd::Var& states) {
    const std::vector<float> ours = to_host(states.value),
                             theirs = outputs.read_f32("hidden." + std::to_string(layer));
    const std::int64_t width = states.value.columns();
    double worst = 0;
    for (std::int64_t s = 0; s < batch_.sequences(); ++s) {
      const std::int64_t begin = batch_.cu_seqlens[static_cast<std::size_t>(s)],
                         end = batch_.cu_seqlens[static_cast<std::size_t>(s) + 1];
      for (std::int64_t i = 0; i < (end - begin) * width; ++i) {
        worst = std::max(worst, test::output_difference(
                                    ours[static_cast<std::size_t>(begin * width + i)],
                                    theirs[static_cast<std::size_t>(s * length_ * width + i)]));
      }
    }
    EXPECT_LT(worst, 5e-5) << "hidden." << layer;
    ++compared;
  };
  step(0);
  EXPECT_EQ(compared, engine_->student().plan().end_layer - engine_->student().plan().first_layer +
                          (grid_.is_first_stage() ? 1 : 0));
}

TEST_P(MocParity, TermsAndGradients) {
  const double loss = expected_.at("loss"), whole = expected_.at("grad_norm");
  EXPECT_NEAR(step(0), loss, 2e-5 * loss);
  EXPECT_NEAR(balance_, expected_.at("terms").at("aux").get<double>(), 2e-5);
  EXPECT_NEAR(engine_->optimizer().gradient_norm(grid_), whole, 2e-5 * whole);
  const auto ours = gradients();
  if (test::world().rank() != 0) return;
  const SafetensorsReader theirs(folder_ + "/grads.safetensors");
  EXPECT_EQ(ours.size(), theirs.tensors().size());
  for (const auto& [name, tensor] : ours)
    expect_near(tensor.values, theirs.read_f32("grad." + golden_name(name)), 2e-5, whole, name);
}

TEST_P(MocParity, ThreeAdamWSteps) {
  const json& train = expected_.at("train");
  for (std::size_t number = 0; number <= 3; ++number) {
    const double expected = train.at("losses").at(number);
    EXPECT_NEAR(step(static_cast<std::int64_t>(number)), expected, 2e-5 * expected) << number;
    if (number == 3) break;
    const double gradient_norm = engine_->optimizer().gradient_norm(grid_);
    const double expected_norm = train.at("grad_norms").at(number);
    EXPECT_NEAR(gradient_norm, expected_norm, 1e-4 * expected_norm) << number;
    engine_->update(1e-3, clip_factor(gradient_norm, 1.0));
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, MocParity, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace fathom::train
