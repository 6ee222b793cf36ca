#include "train/trained_parts.h"

#include <algorithm>

#include "methods/adapters/targets.h"
#include "model/family.h"
#include "train/trained.h"

namespace fathom::train {
namespace {

// Of what a method adds.
std::int64_t first_tuned_layer(const EnginePlan& plan) {
  if (plan.moc.enabled) return 0;
  if (plan.adapter.kind == methods::adapters::Kind::none) return plan.student.layers;
  const auto& layers = plan.adapter.layers;
  return layers.empty() ? 0 : *std::min_element(layers.begin(), layers.end());
}

}  // namespace

TrainedParts trained_parts(const TrainConfig& config, const EnginePlan& plan) {
  const model::ModelSpec& spec = plan.student;
  const model::FamilyNames& names = model::names_of(spec.family);
  const auto is_trained = [&](const std::string& name) { return trains(config, plan, name); };
  TrainedParts parts;
  parts.embedding = is_trained(names.embedding);
  parts.positions = spec.learned_positions && is_trained(names.positions);
  parts.head = spec.tied ? parts.embedding : is_trained(names.head);
  const bool inputs =
      parts.embedding || parts.positions || (spec.projected() && is_trained(names.project_in));
  std::vector<double> all(static_cast<std::size_t>(spec.layers)), trained = all;
  for (const auto& module : methods::adapters::linear_modules(spec)) {
    const auto layer = static_cast<std::size_t>(module.layer);
    const auto elements = static_cast<double>(module.inputs * module.outputs);
    all[layer] += elements;
    if (is_trained(module.name + ".weight")) trained[layer] += elements;
  }
  for (std::size_t layer = 0; layer < all.size(); ++layer)
    parts.share.push_back(trained[layer] / all[layer]);
  const auto any = [&](std::int64_t layer) {
    return parts.share[static_cast<std::size_t>(layer)] > 0 ||
           is_trained(model::layer_name(names, layer, str(names.attention_norm, ".weight"))) ||
           is_trained(model::layer_name(names, layer, str(names.mlp_norm, ".weight")));
  };
  const std::int64_t tuned = inputs ? 0 : first_tuned_layer(plan);
  while (parts.first_layer < tuned && !any(parts.first_layer)) ++parts.first_layer;
  return parts;
}

}  // namespace fathom::train
