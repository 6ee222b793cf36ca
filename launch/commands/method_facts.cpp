#include "launch/commands/method_facts.h"

#include <nlohmann/json.hpp>

#include "methods/moc/spec_json.h"
#include "train/run_state.h"

namespace fathom::launch {

using nlohmann::json;

json method_facts(const SourcePlan& source) {
  const train::EnginePlan& plan = source.plan;
  json facts = {{"method", methods::adapters::to_string(plan.adapter.kind)}};
  if (plan.adapter.kind != methods::adapters::Kind::none)
    facts["adapter"] = json::parse(train::adapter_json(plan, source.source.model));
  if (plan.adapter.kind == methods::adapters::Kind::molex) facts["route_scope"] = "sequence";
  if (plan.moc.enabled) {
    facts["method"] = "moc";
    facts["moc"] = json::parse(methods::moc::to_json(plan.moc));
    facts["route_scope"] = facts["moc"]["eval_scope"];
  }
  if (plan.mode) facts["mode"] = json::parse(methods::mode::to_json(*plan.mode));
  if (source.loss_on_prompt) facts["loss_on_prompt"] = *source.loss_on_prompt;
  return facts;
}

}  // namespace fathom::launch
