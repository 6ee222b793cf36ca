#include "methods/adapters/adapter_config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "methods/adapters/targets.h"
#include "model/family.h"

namespace fathom::methods::adapters {
namespace {

using nlohmann::json;

// Keys that are read below, or say nothing about the arithmetic.
const std::set<std::string> kUnderstood = {"peft_type",
                                           "r",
                                           "lora_alpha",
                                           "lora_dropout",
                                           "target_modules",
                                           "use_dora",
                                           "use_rslora",
                                           "layers_to_transform",
                                           "bias",
                                           "vera_dropout",
                                           "d_initial",
                                           "save_projection",
                                           "init_lora_weights",
                                           "init_weights",
                                           "projection_prng_key",
                                           "fan_in_fan_out",
                                           "auto_mapping",
                                           "base_model_name_or_path",
                                           "revision",
                                           "inference_mode",
                                           "peft_version",
                                           "task_type",
                                           "megatron_core",
                                           "qalora_group_size",
                                           "layers_pattern",
                                           "sites",
                                           "alpha",
                                           "prefix",
                                           "suffix",
                                           "tied",
                                           "own_share",
                                           "balance",
                                           "ensure_weight_tying",
                                           "runtime_config",
                                           "lora_ga_config",
                                           "loftq_config",
                                           "eva_config",
                                           "corda_config"};

bool says_nothing(const json& value) {
  return value.is_null() || value == false || value == "" ||
         ((value.is_object() || value.is_array()) && value.empty());
}

// Initialisations that leave the base model as it was.
bool keeps_base(const json& value) {
  static const std::set<std::string> kinds = {"gaussian", "eva", "orthogonal"};
  return value.is_null() || value.is_boolean() ||
         (value.is_string() && kinds.count(value.get<std::string>()) != 0);
}

class Reader {
 public:
  Reader(const json& config, std::string origin) : config_(config), origin_(std::move(origin)) {}

  template <typename T>
  T get(const char* key, T otherwise) const {
    const auto found = config_.find(key);
    if (found == config_.end() || found->is_null()) return otherwise;
    try {
      return found->get<T>();
    } catch (const json::exception&) {
      refuse(key, "has the wrong type");
    }
  }

  std::vector<std::string> targets() const {
    const auto found = config_.find("target_modules");
    if (found == config_.end() || found->is_null()) return {};
    if (!found->is_string()) return get<std::vector<std::string>>("target_modules", {});
    const std::string text = found->get<std::string>();
    return {text == "all-linear" ? text : "regex:" + text};
  }

  std::vector<int> layers() const {
    const auto found = config_.find("layers_to_transform");
    if (found != config_.end() && found->is_number_integer()) return {found->get<int>()};
    return get<std::vector<int>>("layers_to_transform", {});
  }

  [[noreturn]] void refuse(const std::string& key, const char* why) const {
    fail(ErrorKind::data, origin_, ": ", key, " = ", config_.at(key).dump(), " ", why);
  }

  void check_unknown() const {
    for (const auto& [key, value] : config_.items())
      if (kUnderstood.count(key) == 0 && !says_nothing(value)) refuse(key, "is not supported");
    for (const char* key : {"init_lora_weights", "init_weights"})
      if (config_.contains(key) && !keeps_base(config_.at(key)))
        refuse(key, "changed the base model's weights too; merge such an adapter with peft first");
    if (get<std::string>("bias", "none") != "none") refuse("bias", "is not supported; none is");
    if (!get<bool>("save_projection", true))
      refuse("save_projection", "leaves out projections that only torch could draw again");
  }

 private:
  const json& config_;
  std::string origin_;
};

void read_state_kind(const Reader& reader, AdapterSpec& spec) {
  const auto sites = reader.get<std::string>("sites", "both");
  if (sites != "attention" && sites != "mlp" && sites != "both")
    reader.refuse("sites", "is none of attention, mlp and both");
  spec.sites = sites == "attention" ? Sites::attention : sites == "mlp" ? Sites::mlp : Sites::both;
  spec.control_scale = reader.get("alpha", spec.control_scale);
  spec.prefix = reader.get("prefix", spec.prefix);
  spec.suffix = reader.get("suffix", spec.suffix);
  spec.tied = reader.get("tied", spec.tied);
}

json common(const AdapterSpec& spec, const model::ModelSpec& model, const std::string& base) {
  const PortableTargets portable = portable_targets(spec, model);
  json config = {
      {"base_model_name_or_path", base},
      {"bias", "none"},
      {"fan_in_fan_out", model::names_of(model.family).layout == autograd::WeightLayout::in_out},
      {"inference_mode", true},
      {"r", spec.rank},
      {"target_modules", portable.targets},
      {"task_type", "CAUSAL_LM"}};
  if (portable.targets.size() == 1) {
    const std::string& only = portable.targets.front();
    if (only == "all-linear") config["target_modules"] = only;
    if (only.starts_with("regex:")) config["target_modules"] = only.substr(6);
  }
  if (!spec.layers.empty() && !portable.names_layers) config["layers_to_transform"] = spec.layers;
  return config;
}

}  // namespace

AdapterSpec parse_adapter_config(const std::string& text, const std::string& origin) {
  const json config = json::parse(text, nullptr, false);
  require(config.is_object(), ErrorKind::data, origin, ": not a JSON object");
  const Reader reader(config, origin);
  reader.check_unknown();
  AdapterSpec spec;
  const auto type = reader.get<std::string>("peft_type", "");
  if (type == "LORA") {
    spec.kind = reader.get("use_dora", false) ? Kind::dora : Kind::lora;
    spec.alpha = reader.get("lora_alpha", 8.0);
    spec.rslora = reader.get("use_rslora", false);
    spec.dropout = reader.get("lora_dropout", 0.0);
    spec.rank = reader.get("r", 8);
  } else if (type == "VERA") {
    spec.kind = Kind::vera;
    spec.dropout = reader.get("vera_dropout", 0.0);
    spec.d_initial = reader.get("d_initial", 0.1);
    spec.rank = reader.get("r", 256);
  } else if (type == "MOLEX") {
    spec.kind = Kind::molex;
    spec.alpha = reader.get("lora_alpha", spec.alpha);
    spec.rslora = reader.get("use_rslora", false);
    spec.dropout = reader.get("lora_dropout", 0.0);
    spec.rank = reader.get("r", 8);
    spec.own_share = reader.get("own_share", spec.own_share);
    spec.balance = reader.get("balance", spec.balance);
  } else if (type == "PARALLEL_CONTROL" || type == "LOREFT") {
    spec.kind = type == "LOREFT" ? Kind::loreft : Kind::parallel_control;
    spec.rank = reader.get("r", 8);
    read_state_kind(reader, spec);
  } else {
    fail(ErrorKind::data, origin, ": peft_type = '", type,
         "' is not supported; LORA, VERA, PARALLEL_CONTROL, LOREFT and MOLEX are");
  }
  require(spec.rank > 0, ErrorKind::data, origin, ": r = ", spec.rank, " is no rank");
  spec.targets = reader.targets();
  spec.layers = reader.layers();
  return spec;
}

std::string adapter_config(const AdapterSpec& spec, const model::ModelSpec& model,
                           const std::string& base) {
  json config = common(spec, model, base);
  switch (spec.kind) {
    case Kind::molex:
      config["own_share"] = spec.own_share;
      config["balance"] = spec.balance;
      [[fallthrough]];
    case Kind::lora:
    case Kind::dora:
      config["peft_type"] = spec.kind == Kind::molex ? "MOLEX" : "LORA";
      config["use_dora"] = spec.kind == Kind::dora;
      config["use_rslora"] = spec.rslora;
      // peft's own files hold whole numbers as integers.
      if (spec.alpha == std::floor(spec.alpha))
        config["lora_alpha"] = static_cast<std::int64_t>(spec.alpha);
      else
        config["lora_alpha"] = spec.alpha;
      config["lora_dropout"] = spec.dropout;
      break;
    case Kind::vera:
      config["peft_type"] = "VERA";
      config["vera_dropout"] = spec.dropout;
      config["d_initial"] = spec.d_initial;
      config["save_projection"] = true;
      break;
    case Kind::parallel_control: {
      static const char* const words[] = {"attention", "mlp", "both"};
      config["peft_type"] = "PARALLEL_CONTROL";
      config["sites"] = words[static_cast<int>(spec.sites)];
      config["alpha"] = spec.control_scale;
      break;
    }
    case Kind::loreft:
      config["peft_type"] = "LOREFT";
      config["prefix"] = spec.prefix;
      config["suffix"] = spec.suffix;
      config["tied"] = spec.tied;
      break;
    case Kind::none:
      fail(ErrorKind::internal, "there is no adapter to describe");
  }
  return config.dump(2) + "\n";
}

}  // namespace fathom::methods::adapters
