#include "train/trained.h"

#include <algorithm>

#include "core/parameter_names.h"
#include "methods/adapters/targets.h"
#include "methods/mode/late_vote.h"
#include "model/family.h"
#include "train/operation_counts.h"

namespace fathom::train {
namespace {

using Groups = std::vector<std::vector<std::string>>;

// The patterns of a run, by the key that has them.
struct Patterns {
  const char* key;
  const NamePatterns& names;
};

Patterns patterns_of(const TrainConfig& config, const EnginePlan& plan) {
  if (is_tuned(plan)) return {"adapter.train", config.adapter.train};
  return {"model.freeze", config.model.freeze};
}

void check_that_each_matches(const Patterns& patterns, const model::ModelSpec& model,
                             const Groups& groups) {
  const model::FamilyNames& names = model::names_of(model.family);
  for (const std::string& pattern : patterns.names.patterns) {
    const NamePatterns one{{pattern}};
    const bool found = std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
      return std::any_of(group.begin(), group.end(),
                         [&](const std::string& name) { return one.match(name); });
    });
    const bool tied_head = model.tied && one.match(names.head);
    require(found, ErrorKind::config, patterns.key, ": '", pattern,
            "' matches no parameter of the model",
            tied_head ? str("; its head is its embedding, ", names.embedding)
                      : str("; names are such as ", names.embedding, " and ",
                            model::layer_name(names, 0, names.qkv.front()), ".weight"));
  }
}

void check_fused(const Patterns& patterns, const Groups& groups) {
  for (const auto& group : groups) {
    const auto matched = [&](const std::string& name) { return patterns.names.match(name); };
    const auto in = std::find_if(group.begin(), group.end(), matched);
    const auto out = std::find_if_not(group.begin(), group.end(), matched);
    require(in == group.end() || out == group.end(), ErrorKind::config, patterns.key, " names ",
            in == group.end() ? "" : *in, " and not ", out == group.end() ? "" : *out,
            ", which are one fused matrix: name both or none");
  }
}

// What an adapter changes must stay as it was: DoRA's norms and a later merge are of that weight.
void check_adapted(const NamePatterns& also, const EnginePlan& plan) {
  using namespace methods::adapters;
  for (const Module& module : linear_modules(plan.student))
    require(
        !targets(plan.adapter, module.name, module.layer) || !also.match(module.name + ".weight"),
        ErrorKind::config, "adapter.train names ", module.name,
        ".weight, which has an adapter; train either");
}

bool trains_anything(const TrainConfig& config, const EnginePlan& plan, const Groups& groups) {
  if (is_tuned(plan)) return true;  // whose own parameters exist, or the plan would have failed
  if (plan.mode && methods::mode::size_of(*plan.mode, plan.student).trained > 0) return true;
  return std::any_of(groups.begin(), groups.end(),
                     [&](const auto& group) { return trains(config, plan, group.front()); });
}

}  // namespace

bool trains(const TrainConfig& config, const EnginePlan& plan, const std::string& name) {
  if (is_method_parameter(name)) return true;
  if (plan.mode && plan.mode->norms != methods::mode::Norms::none &&
      methods::mode::is_last_norm(name, plan.student))
    return true;  // the last layer's expert
  return is_tuned(plan) ? config.adapter.train.match(name) : !config.model.freeze.match(name);
}

void check_trained(const TrainConfig& config, const EnginePlan& plan) {
  const Patterns patterns = patterns_of(config, plan);
  const Groups groups = model::parameter_groups(plan.student);
  check_that_each_matches(patterns, plan.student, groups);
  check_fused(patterns, groups);
  if (is_tuned(plan)) check_adapted(config.adapter.train, plan);
  require(trains_anything(config, plan, groups), ErrorKind::config,
          "model.freeze covers every parameter of the model: nothing is left to train");
}

TrainedCount count_trained(Engine& engine) {
  std::int64_t counts[] = {0, 0};  // replicas have the same, and share the sum
  for (const model::Parameter& parameter : engine.student().parameters().parameters()) {
    if (!parameter.owned) continue;
    std::int64_t elements = 0;
    for (const model::Piece& piece : parameter.pieces) elements += piece.rows * piece.columns;
    if (parameter.trainable()) counts[0] += elements;
    counts[1] += elements;
  }
  engine.grid().world().all_reduce(counts, 2, comm::ReduceOp::sum);
  const int dp = engine.grid().shape().dp;
  return {counts[0] / dp, counts[1] / dp};
}

}  // namespace fathom::train
