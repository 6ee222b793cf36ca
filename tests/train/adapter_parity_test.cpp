// Adapters on frozen golden models, on every grid of this rank count: outputs, gradients and three
// AdamW steps as peft (and, for Parallel Control, LoReFT and MoLEx, plain PyTorch) computed them.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../mpi_main.h"
#include "checkpoints/safetensors.h"
#include "methods/adapters/parameter_names.h"
#include "methods/adapters/tensors.h"
#include "tests/support/golden.h"
#include "train/hf_weights.h"
#include "train/probe.h"

namespace fathom::train {
namespace {

using checkpoints::SafetensorsReader;
using methods::adapters::Kind;

struct Case {
  std::string model;
  std::string adapter;  ///< folder below the model's, or a method
  comm::GridShape grid;
  Recompute recompute = Recompute::cheap;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  static const char* const words[] = {"none", "cheap", "block"};
  return c.model + "_" + c.adapter + "_tp" + std::to_string(c.grid.tp) + "_pp" +
         std::to_string(c.grid.pp) + "_dp" + std::to_string(c.grid.dp) + "_" +
         words[static_cast<int>(c.recompute)];
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // Tests are listed before MPI starts; the main checks that this is the number of ranks.
  const int ranks = std::atoi(std::getenv("FATHOM_TEST_RANKS"));
  const auto add = [&](const std::string& model, const std::string& adapter, Recompute recompute) {
    for (int tp = 1; tp <= ranks; ++tp)
      for (int pp = 1; pp <= ranks; ++pp)
        if (ranks % (tp * pp) == 0)
          all.push_back({model, adapter, {.dp = ranks / tp / pp, .pp = pp, .tp = tp}, recompute});
  };
  for (const Recompute recompute : {Recompute::none, Recompute::cheap, Recompute::block}) {
    for (const char* model : {"gpt2", "llama"})
      for (const char* adapter : {"lora", "dora", "vera"}) add(model, adapter, recompute);
    for (const char* method : {"control", "loreft_tied", "loreft_split"})
      add("llama", method, recompute);
    // One stage, and replicas would each choose for their own rows.
    all.push_back({"llama", "molex", {.tp = ranks}, recompute});
  }
  return all;
}

// The golden control's own names: "layers.0.attn.A".
std::string control_name(const std::string& parameter) {
  std::string name = parameter.substr(parameter.find("layers."));
  for (const auto& [ours, theirs] :
       {std::pair{"control.attention", "attn"}, {"control.mlp", "ffn"}})
    if (const std::size_t at = name.find(ours); at != std::string::npos)
      name.replace(at, std::string(ours).size(), theirs);
  return name;
}

// The model's weights from its folder, the control's from the golden case.
class ControlWeights : public model::WeightSource {
 public:
  ControlWeights(const std::string& model, const std::string& control)
      : base_(model), control_(control) {}
  void read(const model::Parameter& parameter, const model::Piece& piece,
            float* out) const override {
    if (methods::adapters::is_adapter_parameter(parameter.name))
      control_.read(control_name(parameter.name),
                    {{piece.row, piece.column}, {piece.rows, piece.columns}}, out);
    else
      base_.read(parameter, piece, out);
  }

 private:
  HfWeights base_;
  SafetensorsReader control_;
};

std::string folder_of(const std::string& model, const std::string& adapter) {
  if (adapter == "control") return test::golden("methods/parallel_control-llama-both");
  if (adapter == "loreft_tied") return test::golden("methods/loreft-llama-tied");
  if (adapter == "loreft_split") return test::golden("methods/loreft-llama-split");
  if (adapter == "molex") return test::golden("methods/molex-llama");
  return model + "/adapter-" + adapter;
}

class AdapterParity : public testing::TestWithParam<Case> {
 protected:
  AdapterParity()
      : model_(test::golden("models/" + GetParam().model)),
        control_(GetParam().adapter == "control"),
        case_(folder_of(model_, GetParam().adapter)),
        device_(test::make_device(std::size_t{1} << 30)),
        grid_(test::world(), GetParam().grid, *device_) {
    config_.model.path = model_;
    if (control_) {
      config_.adapter.spec.kind = Kind::parallel_control;
      config_.adapter.spec.rank = 4;
    } else {
      config_.adapter.path = case_;
    }
    config_.grid.tp = GetParam().grid.tp;
    config_.grid.pp = GetParam().grid.pp;
    config_.grid.dp = GetParam().grid.dp;
    config_.memory.recompute = GetParam().recompute;
    config_.optim = {.lr = 1e-3,
                     .beta1 = 0.9,
                     .beta2 = 0.95,
                     .eps = 1e-8,
                     .weight_decay = 0.1,
                     .decay = Decay::all,
                     .clip = 1.0};
    config_.loss.chunk_rows = 16;
    engine_ = std::make_unique<Engine>(*device_, grid_, config_, make_engine_plan(config_), true);
    engine_->load_initial_weights();
    if (control_) {
      model::load_parameters(engine_->student().parameters(),
                             ControlWeights(model_, case_ + "/params.safetensors"));
      engine_->weights_changed();
    }
    const bool own_inputs = std::filesystem::exists(case_ + "/inputs.safetensors");
    batch_ = read_padded_batch((own_inputs ? case_ : model_) + "/inputs.safetensors");
    std::ifstream file(case_ + "/expected.json");
    expected_ = nlohmann::json::parse(file);
  }

  // What the golden files call a parameter in gradients and norms.
  std::string golden_name(const std::string& parameter) const {
    if (control_) return control_name(parameter);
    const std::string name = methods::adapters::stored_name(parameter);
    return name.ends_with("lora_magnitude_vector") ? name + ".weight" : name;
  }

  std::string model_;
  bool control_;
  std::string case_;
  std::unique_ptr<Device> device_;
  comm::ProcessGrid grid_;
  TrainConfig config_;
  std::unique_ptr<Engine> engine_;
  PaddedBatch batch_;
  nlohmann::json expected_;
};

TEST_P(AdapterParity, OutputsLossAndGradients) {
  const ProbeResult result = probe(*engine_, batch_, true);
  if (test::world().rank() != 0) return;
  const SafetensorsReader outputs(case_ + "/expected.safetensors");
  for (const auto& [name, entry] : outputs.tensors()) {
    if (name == "loss") continue;
    // The control's last state is taken before the final norm, ours behind it.
    if (control_ && name == "hidden.4") continue;
    ASSERT_TRUE(result.tensors.count(name)) << name;
    const WholeTensor& ours = result.tensors.at(name);
    EXPECT_LT(test::worst_output_difference(ours.values, outputs.read_f32(name), batch_.mask,
                                            ours.shape[1]),
              5e-5)
        << name;
  }
  const double loss = expected_.at("loss");
  EXPECT_NEAR(result.tensors.at("cross_entropy").values[0], loss, 2e-5 * loss);

  const SafetensorsReader gradients(case_ + "/grads.safetensors");
  double total = 0;
  for (const auto& [name, entry] : gradients.tensors())
    total += std::pow(test::norm(gradients.read_f32(name)), 2);
  std::size_t compared = 0;
  for (const auto& [name, tensor] : result.tensors) {
    if (!name.starts_with("grad.")) continue;
    const std::string theirs_name = "grad." + golden_name(name.substr(5));
    ASSERT_TRUE(gradients.contains(theirs_name)) << theirs_name;
    const std::vector<float> theirs = gradients.read_f32(theirs_name);
    EXPECT_LT(test::distance(tensor.values, theirs),
              2e-5 * test::norm(theirs) + 1e-6 * std::sqrt(total))
        << name;
    ++compared;
  }
  EXPECT_EQ(compared, gradients.tensors().size());
}

// What is left of the loss beside the cross-entropy.
void expect_balance(const Engine& engine, double expected) {
  ASSERT_EQ(engine.state_terms().size(), 1u);
  const methods::StateTerm& term = engine.state_terms().front();
  EXPECT_EQ(term.name, "molex_balance");
  EXPECT_NEAR(term.sum / term.count, expected, 2e-5 * expected);
}

TEST_P(AdapterParity, ThreeAdamWSteps) {
  const auto& train = expected_.at("train");
  const auto& norms = train.at(control_ ? "grad_norms" : "grad_norms_before_clip");
  const std::int64_t vocab = engine_->student().spec().vocab;
  const data::RoleCounts counts(
      data::count(data::from_padded(batch_.ids, batch_.mask, batch_.labels, batch_.rows,
                                    batch_.length, static_cast<std::int32_t>(vocab))));
  for (std::size_t step = 0; step <= 3; ++step) {
    const auto sums = engine_->forward_backward(rows_of_rank(batch_, grid_, vocab), counts,
                                                static_cast<std::int64_t>(step));
    const double expected = train.at("losses").at(step);
    EXPECT_NEAR(sums.cross_entropy / static_cast<double>(sums.tokens), expected, 2e-5 * expected)
        << step;
    if (GetParam().adapter == "molex") expect_balance(*engine_, train.at("balances").at(step));
    if (step == 3) break;
    const double gradient_norm = engine_->optimizer().gradient_norm(grid_);
    const double expected_norm = norms.at(step);
    EXPECT_NEAR(gradient_norm, expected_norm, 1e-4 * expected_norm) << step;
    engine_->update(1e-3, clip_factor(gradient_norm, 1.0));
  }
  if (!train.contains("params_after")) return;
  std::vector<Fragment> fragments;
  if (grid_.place().dp == 0)
    for (const model::Parameter& parameter : engine_->student().parameters().parameters())
      if (parameter.trainable())
        append_fragments(parameter, parameter.value, parameter.name, fragments);
  for (const auto& [name, tensor] : collect(test::world(), fragments)) {
    const double l2 = train.at("params_after").at(golden_name(name)).at(0);
    EXPECT_NEAR(test::norm(tensor.values), l2, 2e-5 * l2) << name;
  }
}

// Nothing but the adapter is trained, and a frozen matrix keeps no input. LoReFT's own ones keep
// the 13 edited rows of width 64 and their 4 coordinates, in 3 layers.
TEST_P(AdapterParity, TheModelIsFrozen) {
  for (const model::Parameter& parameter : engine_->student().parameters().parameters())
    EXPECT_EQ(parameter.trainable(), methods::adapters::is_adapter_parameter(parameter.name) &&
                                         parameter.name.find("adapter.vera_") == std::string::npos)
        << parameter.name;
  probe(*engine_, batch_, true);
  const autograd::SavedBytes& saved = engine_->work().saved_bytes();
  const auto linear = saved.find("linear");
  if (linear != saved.end()) {
    const bool edits = GetParam().adapter.starts_with("loreft");
    EXPECT_LE(linear->second, edits ? 3 * 13 * (64 + 4) * sizeof(float) : 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, AdapterParity, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace fathom::train
