#include "methods/adapters/targets.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "core/error.h"
#include "model/family.h"

namespace fathom::methods::adapters {
namespace {

constexpr const char* kAllLinear = "all-linear";
constexpr std::string_view kRegex = "regex:";

bool ends_with_part(const std::string& module, const std::string& part) {
  if (module == part) return true;
  return module.size() > part.size() && module.ends_with(part) &&
         module[module.size() - part.size() - 1] == '.';
}

bool matches(const std::string& target, const std::string& module) {
  if (target == kAllLinear) return true;
  if (target.starts_with(kRegex))
    return std::regex_match(module, std::regex(target.substr(kRegex.size())));
  return ends_with_part(module, target);
}

std::vector<std::string> default_targets(model::Family family) {
  if (family == model::Family::gpt2) return {"c_attn"};
  return {"q_proj", "v_proj"};
}

std::string last_part(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

std::string list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// The last parts of all names: what a target may look like.
std::string allowed(const std::vector<Module>& modules) {
  std::vector<std::string> parts;
  for (const Module& module : modules) {
    const std::string part = last_part(module.name);
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  }
  parts.push_back(kAllLinear);
  return list(parts);
}

bool matches_any(const std::string& target, const AdapterSpec& spec,
                 const std::vector<Module>& modules) {
  try {
    return std::any_of(modules.begin(), modules.end(), [&](const Module& module) {
      return covers_layer(spec, module.layer) && matches(target, module.name);
    });
  } catch (const std::regex_error& error) {
    fail(ErrorKind::config, "adapter.targets: '", target,
         "' is no regular expression: ", error.what());
  }
}

void settle_targets(AdapterSpec& spec, const std::vector<Module>& modules, Unmatched unmatched) {
  std::vector<std::string> found;
  for (const std::string& target : spec.targets) {
    if (matches_any(target, spec, modules))
      found.push_back(target);
    else
      require(unmatched == Unmatched::drop, ErrorKind::config, "adapter.targets: '", target,
              "' matches no linear layer of ",
              spec.layers.empty() ? "the model" : "the layers in adapter.layers", "; it has ",
              allowed(modules));
  }
  require(!found.empty(), ErrorKind::config, "adapter.targets: none of ", list(spec.targets),
          " matches a linear layer of the model; it has ", allowed(modules));
  spec.targets = std::move(found);
}

void check_ranks(const AdapterSpec& spec, const std::vector<Module>& modules) {
  for (const Module& module : modules) {
    if (!targets(spec, module.name, module.layer) || spec.kind == Kind::vera) continue;
    const std::int64_t most = std::min(module.inputs, module.outputs);
    require(spec.rank <= most, ErrorKind::config, "adapter.rank = ", spec.rank, " is more than ",
            module.name, " [", module.outputs, ", ", module.inputs, "] can have; at most ", most);
  }
}

}  // namespace

double AdapterSpec::scale() const {
  return alpha / (rslora ? std::sqrt(static_cast<double>(rank)) : rank);
}

std::vector<Module> linear_modules(const model::ModelSpec& model) {
  const model::FamilyNames& names = model::names_of(model.family);
  const std::int64_t q = model.heads * model.head_dim, kv = model.kv_heads * model.head_dim;
  std::vector<Module> modules;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const auto add = [&](const char* suffix, std::int64_t inputs, std::int64_t outputs) {
      modules.push_back({model::layer_name(names, layer, suffix), layer, inputs, outputs});
    };
    const bool fused = names.qkv.size() == 1;
    for (std::size_t i = 0; i < names.qkv.size(); ++i)
      add(names.qkv[i], model.hidden, fused ? q + 2 * kv : (i == 0 ? q : kv));
    add(names.attention_out, q, model.hidden);
    for (const char* suffix : names.mlp_in) add(suffix, model.hidden, model.ffn);
    add(names.mlp_out, model.ffn, model.hidden);
  }
  return modules;
}

bool covers_layer(const AdapterSpec& spec, std::int64_t layer) {
  return spec.layers.empty() ||
         std::find(spec.layers.begin(), spec.layers.end(), layer) != spec.layers.end();
}

bool targets(const AdapterSpec& spec, const std::string& module, std::int64_t layer) {
  return covers_layer(spec, layer) &&
         std::any_of(spec.targets.begin(), spec.targets.end(),
                     [&](const std::string& target) { return matches(target, module); });
}

AdapterSpec resolve(AdapterSpec spec, const model::ModelSpec& model, Unmatched unmatched) {
  if (spec.kind == Kind::none) return spec;
  for (const int layer : spec.layers)
    require(layer >= 0 && layer < model.layers, ErrorKind::config, "adapter.layers names layer ",
            layer, "; the model has layers 0 to ", model.layers - 1);
  if (spec.on_linear_layers()) {
    if (spec.targets.empty()) spec.targets = default_targets(model.family);
    const std::vector<Module> modules = linear_modules(model);
    settle_targets(spec, modules, unmatched);
    check_ranks(spec, modules);
  } else {
    require(spec.rank <= model.hidden, ErrorKind::config, "adapter.rank = ", spec.rank,
            " is more than the model's width, ", model.hidden);
  }
  return spec;
}

PortableTargets portable_targets(const AdapterSpec& spec, const model::ModelSpec& model) {
  const auto special = [](const std::string& target) {
    return target == kAllLinear || target.starts_with(kRegex);
  };
  const bool plain = std::none_of(spec.targets.begin(), spec.targets.end(), special);
  if (plain || (spec.targets.size() == 1 && spec.layers.empty())) return {spec.targets};
  PortableTargets names{.targets = {}, .names_layers = true};
  for (const Module& module : linear_modules(model))
    if (targets(spec, module.name, module.layer)) names.targets.push_back(module.name);
  return names;
}

}  // namespace fathom::methods::adapters
