#include "methods/adapters/tensors.h"

#include <algorithm>

#include "methods/adapters/molex.h"
#include "methods/adapters/parameter_names.h"
#include "methods/adapters/targets.h"
#include "model/family.h"

namespace fathom::methods::adapters {
namespace {

void add_linear(const AdapterSpec& spec, const model::ModelSpec& model,
                std::vector<AdapterTensor>& all) {
  const std::int64_t r = spec.rank;
  std::int64_t inputs = 0, outputs = 0;
  for (const Module& module : linear_modules(model)) {
    if (!targets(spec, module.name, module.layer)) continue;
    inputs = std::max(inputs, module.inputs);
    outputs = std::max(outputs, module.outputs);
    const auto add = [&](const char* name, Shape shape) {
      all.push_back({kAdapterPrefix + module.name + name, shape, module.layer});
    };
    if (spec.kind == Kind::vera) {
      add(".vera_lambda_d", {r});
      add(".vera_lambda_b", {module.outputs});
      continue;
    }
    add(".lora_A.weight", {r, module.inputs});
    add(".lora_B.weight", {module.outputs, r});
    if (spec.kind == Kind::dora) add(".lora_magnitude_vector", {module.outputs});
  }
  if (spec.kind == Kind::molex)
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
      all.push_back({molex_gate_name(model, layer), {model.hidden, model.layers}, layer});
  if (spec.kind != Kind::vera) return;
  all.push_back({kVeraA, {r, inputs}, -1, false});
  all.push_back({kVeraB, {outputs, r}, -1, false});
}

void add_states(const AdapterSpec& spec, const model::ModelSpec& model, std::int64_t layer,
                std::vector<AdapterTensor>& all) {
  const std::string block =
      kAdapterPrefix + model::layer_name(model::names_of(model.family), layer, "");
  const Shape wide{spec.rank, model.hidden}, tall{model.hidden, spec.rank};
  if (spec.kind == Kind::parallel_control) {
    for (const Sites site : {Sites::attention, Sites::mlp}) {
      if (spec.sites != Sites::both && spec.sites != site) continue;
      const std::string name =
          block + (site == Sites::attention ? "control.attention" : "control.mlp");
      all.push_back({name + ".A", wide, layer});
      all.push_back({name + ".B", tall, layer});
    }
    return;
  }
  std::vector<std::string> names = {block + "loreft"};
  if (!spec.tied) names = {block + "loreft.prefix", block + "loreft.suffix"};
  for (const std::string& name : names) {
    all.push_back({name + ".rotation", wide, layer});
    all.push_back({name + ".weight", wide, layer});
    all.push_back({name + ".bias", {spec.rank}, layer});
  }
}

}  // namespace

std::vector<AdapterTensor> tensors(const AdapterSpec& spec, const model::ModelSpec& model) {
  std::vector<AdapterTensor> all;
  if (spec.kind == Kind::none) return all;
  if (spec.on_linear_layers()) {
    add_linear(spec, model, all);
    return all;
  }
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    if (covers_layer(spec, layer)) add_states(spec, model, layer, all);
  return all;
}

std::string stored_name(const std::string& parameter) {
  if (parameter == kVeraA) return "base_model.vera_A";
  if (parameter == kVeraB) return "base_model.vera_B";
  return "base_model.model." + parameter.substr(kAdapterPrefix.size());
}

}  // namespace fathom::methods::adapters
