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

// The last parts of all names: what a target may look like.
std::string allowed(const std::vector<Module>& modules) {
  std::vector<std::string> parts;
  for (const Module& module : modules) {
    const std::string part = last_part(module.name);
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  }
  std::string list;
  for (const std::string& part : parts) list += part + ", ";
  return list + kAllLinear;
}

void check_targets(const AdapterSpec& spec, const std::vector<Module>& modules) {
  for (const std::string& target : spec.targets) {
    try {
      const bool found = std::any_of(modules.begin(), modules.end(), [&](const Module& module) {
        return matches(target, module.name);
      });
      require(found, ErrorKind::config, "adapter.targets: '", target,
              "' matches no linear layer of the model; it has ", allowed(modules));
    } catch (const std::regex_error& error) {
      fail(ErrorKind::config, "adapter.targets: '", target,
           "' is no regular expression: ", error.what());
    }
  }
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

const char* to_string(Kind kind) {
  switch (kind) {
    case Kind::none:
      return "none";
    case Kind::lora:
      return "lora";
    case Kind::dora:
      return "dora";
    case Kind::vera:
      return "vera";
    case Kind::loreft:
      return "loreft";
    case Kind::parallel_control:
      return "parallel_control";
    case Kind::molex:
      return "molex";
  }
  return "?";
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

AdapterSpec resolve(AdapterSpec spec, const model::ModelSpec& model) {
  if (spec.kind == Kind::none) return spec;
  for (const int layer : spec.layers)
    require(layer >= 0 && layer < model.layers, ErrorKind::config, "adapter.layers names layer ",
            layer, "; the model has layers 0 to ", model.layers - 1);
  if (spec.on_linear_layers()) {
    if (spec.targets.empty()) spec.targets = default_targets(model.family);
    check_targets(spec, linear_modules(model));
  } else {
    require(spec.rank <= model.hidden, ErrorKind::config, "adapter.rank = ", spec.rank,
            " is more than the model's width, ", model.hidden);
  }
  return spec;
}

}  // namespace fathom::methods::adapters
