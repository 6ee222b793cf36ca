#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoints/safetensors.h"
#include "core/parameter_names.h"
#include "methods/adapters/parameter_names.h"
#include "tests/support/golden.h"
#include "train/engine.h"
#include "train/hf_weights.h"

/// The golden MoDE cases: a model, its late layers' parameters and what they make of a batch.
namespace fathom::train::mode_golden {

// What the golden files call a parameter of ours.
inline std::string name_of(const std::string& ours, bool light, std::int64_t layers) {
  const std::string mode = std::string(kMethodPrefix) + "mode.";
  if (ours.starts_with(mode)) return ours.substr(mode.size());
  if (light && ours == "model.norm.weight") return "norm." + std::to_string(layers) + ".weight";
  if (!methods::adapters::is_adapter_parameter(ours)) return "base." + ours;
  const std::size_t layer = ours.find("layers.") + 7, module = ours.find("self_attn.") + 10;
  const std::size_t end = ours.find(".lora_");
  return "lora." + ours.substr(layer, ours.find('.', layer) - layer) + "." +
         ours.substr(module, end - module) + "." + ours.substr(end + 6, 1);
}

// The model's weights from its folder; the method's from the golden case.
class GoldenWeights : public model::WeightSource {
 public:
  GoldenWeights(const std::string& model, const std::string& params, bool light,
                std::int64_t layers)
      : base_(model), params_(params), light_(light), layers_(layers) {}
  void read(const model::Parameter& parameter, const model::Piece& piece,
            float* out) const override {
    const std::string name = name_of(parameter.name, light_, layers_);
    if (name.starts_with("base.")) return base_.read(parameter, piece, out);
    params_.read(name,
                 parameter.shape.dims() == 2 ? checkpoints::Rectangle{{piece.row, piece.column},
                                                                      {piece.rows, piece.columns}}
                                             : checkpoints::Rectangle{{piece.row}, {piece.rows}},
                 out);
  }

 private:
  HfWeights base_;
  checkpoints::SafetensorsReader params_;
  bool light_;
  std::int64_t layers_;
};

/// The configuration that a case's options ask for.
inline TrainConfig config(const nlohmann::json& options, const comm::GridShape& grid) {
  TrainConfig config;
  config.model.path = test::golden("models/" + options.at("base").get<std::string>());
  config.grid.tp = grid.tp;
  config.grid.pp = grid.pp;
  config.grid.dp = grid.dp;
  config.loss.chunk_rows = 16;
  config.mode = {.enabled = true,
                 .spec = {.k = options.at("k"), .top_k = options.at("topk")},
                 .lambda = options.at("lambda_distill"),
                 .temperature = options.at("temperature"),
                 .light = options.at("light")};
  if (!config.mode.light) return config;
  methods::adapters::AdapterSpec& adapter = config.adapter.spec;
  adapter.kind = methods::adapters::Kind::lora;
  adapter.rank = options.at("lora").at("r");
  adapter.alpha = adapter.rank * options.at("lora").at("scale").get<double>();
  adapter.targets = {"q_proj", "v_proj"};
  return config;
}

/// Sets the weights of a case; collective as Engine::load_student.
inline void load(Engine& engine, const TrainConfig& config, const std::string& folder) {
  engine.load_initial_weights();
  const model::ModelSpec& spec = engine.student().spec();
  model::load_parameters(engine.student().parameters(),
                         GoldenWeights(config.model.path, folder + "/params.safetensors",
                                       config.mode.light, spec.layers));
  engine.weights_changed();
}

}  // namespace fathom::train::mode_golden
