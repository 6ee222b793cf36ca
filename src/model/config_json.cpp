#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "model/spec.h"

// Reading of Hugging Face's config.json. transformers 5 writes rope_parameters and dtype where
// transformers 4 writes rope_theta, rope_scaling and torch_dtype; both are read.

namespace fathom::model {
namespace {

using Json = nlohmann::json;

class Config {
 public:
  Config(const std::string& text, std::string origin) : origin_(std::move(origin)) {
    json_ = Json::parse(text, nullptr, false);
    require(json_.is_object(), ErrorKind::data, origin_, ": not a JSON object");
  }

  template <typename T>
  T get(const char* key) const {
    const auto value = find<T>(key);
    require(value.has_value(), ErrorKind::data, origin_, ": key \"", key, "\" is missing");
    return *value;
  }

  template <typename T>
  T get(const char* key, T otherwise) const {
    return find<T>(key).value_or(otherwise);
  }

  // A null counts as missing.
  template <typename T>
  std::optional<T> find(const char* key) const {
    return find_in<T>(json_, key);
  }

  std::int64_t size(const char* key) const { return positive(key, get<std::int64_t>(key)); }
  std::int64_t size(const char* key, std::int64_t otherwise) const {
    return positive(key, get<std::int64_t>(key, otherwise));
  }

  const Json* object(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_object() ? &*found : nullptr;
  }

  template <typename T>
  std::optional<T> find_in(const Json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return std::nullopt;
    // The library would cut 4.5 to an integer, and take true for 1.
    constexpr bool whole_number = std::is_integral_v<T> && !std::is_same_v<T, bool>;
    try {
      if (!whole_number || found->is_number_integer()) return found->template get<T>();
    } catch (const Json::exception&) {  // reported below
    }
    fail(ErrorKind::data, origin_, ": \"", key, "\" has the wrong type: ", found->dump());
  }

  void refuse_if(bool condition, const char* what) const {
    require(!condition, ErrorKind::data, origin_, ": ", what, " is not supported");
  }

  const std::string& origin() const { return origin_; }
  const Json& json() const { return json_; }

 private:
  std::int64_t positive(const char* key, std::int64_t value) const {
    require(value > 0, ErrorKind::data, origin_, ": \"", key, "\" is ", value,
            ", it must be positive");
    return value;
  }

  Json json_;
  std::string origin_;
};

kernels::Activation parse_activation(const Config& config, const char* key) {
  const auto name = config.get<std::string>(key);
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return kernels::Activation::gelu_tanh;
  if (name == "gelu") return kernels::Activation::gelu_erf;
  if (name == "relu") return kernels::Activation::relu;
  if (name == "silu" || name == "swish") return kernels::Activation::silu;
  fail(ErrorKind::data, config.origin(), ": \"", key, "\" is \"", name,
       "\"; known are gelu_new, gelu_pytorch_tanh, gelu, relu, silu");
}

Rope parse_rope(const Config& config) {
  Rope rope;
  const Json* scaling = config.object("rope_parameters");
  if (scaling == nullptr) scaling = config.object("rope_scaling");
  rope.theta = config.get<double>("rope_theta", 10000.0);
  if (scaling == nullptr) return rope;
  const auto number = [&](const char* key, double otherwise) {
    return config.find_in<double>(*scaling, key).value_or(otherwise);
  };
  rope.theta = number("rope_theta", rope.theta);
  auto type = config.find_in<std::string>(*scaling, "rope_type");
  if (!type) type = config.find_in<std::string>(*scaling, "type");
  rope.factor = number("factor", 1.0);
  if (!type || *type == "default") {
    rope.factor = 1;
  } else if (*type == "linear") {
    rope.scaling = Rope::Scaling::linear;
  } else if (*type == "llama3") {
    rope.scaling = Rope::Scaling::llama3;
    rope.low_frequency_factor = number("low_freq_factor", 1.0);
    rope.high_frequency_factor = number("high_freq_factor", 4.0);
    rope.original_positions = number("original_max_position_embeddings", 0);
    require(rope.original_positions > 0, ErrorKind::data, config.origin(),
            ": llama3 rope scaling needs original_max_position_embeddings");
  } else {
    fail(ErrorKind::data, config.origin(), ": rope type \"", *type,
         "\" is not supported; known are default, linear, llama3");
  }
  require(rope.theta > 0 && rope.factor > 0, ErrorKind::data, config.origin(),
          ": rope theta and factor must be positive");
  return rope;
}

void parse_gpt2(const Config& config, ModelSpec& spec) {
  spec.hidden = config.size("n_embd");
  spec.layers = config.size("n_layer");
  spec.heads = spec.kv_heads = config.size("n_head");
  spec.ffn = config.size("n_inner", 4 * spec.hidden);
  spec.max_positions = config.size("n_positions", config.size("n_ctx", 1024));
  spec.learned_positions = true;
  spec.norm = kernels::NormKind::layer;
  spec.norm_eps = config.get<float>("layer_norm_epsilon", 1e-5f);
  spec.activation = parse_activation(config, "activation_function");
  spec.gated = false;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = true;
  spec.tied = config.get<bool>("tie_word_embeddings", true);
  spec.scale_attention = config.get<bool>("scale_attn_weights", true);
  spec.scale_by_layer = config.get<bool>("scale_attn_by_inverse_layer_idx", false);
  config.refuse_if(config.get<bool>("add_cross_attention", false), "cross attention");
}

void parse_opt(const Config& config, ModelSpec& spec) {
  spec.hidden = config.size("hidden_size");
  spec.layers = config.size("num_hidden_layers");
  spec.heads = spec.kv_heads = config.size("num_attention_heads");
  spec.ffn = config.size("ffn_dim");
  spec.embed_dim = config.size("word_embed_proj_dim", spec.hidden);
  spec.max_positions = config.size("max_position_embeddings");
  spec.position_offset = 2;
  spec.learned_positions = true;
  spec.norm = kernels::NormKind::layer;
  spec.norm_eps = 1e-5f;
  spec.pre_norm = config.get<bool>("do_layer_norm_before", true);
  spec.final_norm = spec.pre_norm && !config.get<bool>("_remove_final_layer_norm", false);
  spec.activation = parse_activation(config, "activation_function");
  spec.gated = false;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = config.get<bool>("enable_bias", true);
  spec.tied = config.get<bool>("tie_word_embeddings", true);
  spec.initializer_range = config.get<double>("init_std", 0.02);
  config.refuse_if(!config.get<bool>("layer_norm_elementwise_affine", true),
                   "a norm without weights (layer_norm_elementwise_affine: false)");
}

// A null means no window; without the key the libraries' own default holds.
std::int64_t parse_window(const Config& config) {
  if (!config.json().contains("sliding_window")) return 4096;
  return config.get<std::int64_t>("sliding_window", 0);
}

void parse_llama_like(const Config& config, ModelSpec& spec) {
  spec.hidden = config.size("hidden_size");
  spec.layers = config.size("num_hidden_layers");
  spec.heads = config.size("num_attention_heads");
  spec.kv_heads = config.size("num_key_value_heads", spec.heads);
  spec.ffn = config.size("intermediate_size");
  if (config.find<std::int64_t>("head_dim")) spec.head_dim = config.size("head_dim");
  spec.max_positions = config.size("max_position_embeddings");
  spec.norm_eps = config.get<float>("rms_norm_eps", 1e-6f);
  spec.activation = parse_activation(config, "hidden_act");
  spec.rope = parse_rope(config);
  spec.tied = config.get<bool>("tie_word_embeddings", false);
  if (spec.family == Family::llama) {
    spec.qkv_bias = spec.out_bias = config.get<bool>("attention_bias", false);
    spec.mlp_bias = config.get<bool>("mlp_bias", false);
  } else if (spec.family == Family::mistral) {
    spec.window = parse_window(config);
  } else {
    spec.qkv_bias = true;
    if (config.get<bool>("use_sliding_window", false)) {
      spec.window = parse_window(config);
      spec.first_windowed = config.get<std::int64_t>("max_window_layers", 28);
    }
  }
}

const char* layer_type(const ModelSpec& spec, std::int64_t layer) {
  return spec.window_of(layer) > 0 ? "sliding_attention" : "full_attention";
}

// transformers 5 lists the kind of each layer; it must say what the other keys say.
void check_layer_types(const Config& config, const ModelSpec& spec) {
  const auto types = config.find<std::vector<std::string>>("layer_types");
  if (!types) return;
  require(static_cast<std::int64_t>(types->size()) == spec.layers, ErrorKind::data, config.origin(),
          ": \"layer_types\" has ", types->size(), " entries for ", spec.layers, " layers");
  for (std::int64_t layer = 0; layer < spec.layers; ++layer) {
    const std::string& type = (*types)[static_cast<std::size_t>(layer)];
    require(type == layer_type(spec, layer), ErrorKind::data, config.origin(),
            ": \"layer_types\" has \"", type, "\" for layer ", layer,
            ", where the other keys mean \"", layer_type(spec, layer),
            "\"; other mixtures are not supported");
  }
}

void check(const Config& config, const ModelSpec& spec) {
  const auto refuse = [&](bool bad, const auto&... parts) {
    require(!bad, ErrorKind::data, config.origin(), ": ", parts...);
  };
  refuse(spec.heads % spec.kv_heads != 0, spec.heads, " attention heads are not a multiple of ",
         spec.kv_heads, " key/value heads");
  refuse(spec.rope.enabled() && spec.head_dim % 2 != 0,
         "rotary embedding needs an even head_dim, not ", spec.head_dim);
  refuse(spec.window < 0, "sliding_window is ", spec.window);
  refuse(spec.vocab >= std::int64_t{1} << 31, "vocab_size ", spec.vocab,
         " does not fit 32-bit ids");
  check_layer_types(config, spec);
}

Family parse_family(const Config& config) {
  const auto type = config.get<std::string>("model_type");
  for (const Family family :
       {Family::gpt2, Family::opt, Family::llama, Family::mistral, Family::qwen2})
    if (type == to_string(family)) return family;
  fail(ErrorKind::data, config.origin(), ": model_type \"", type,
       "\" is not supported; known are gpt2, opt, llama, mistral, qwen2");
}

}  // namespace

ModelSpec parse_config(const std::string& text, const std::string& origin) {
  const Config config(text, origin);
  ModelSpec spec;
  spec.family = parse_family(config);
  spec.vocab = config.size("vocab_size");
  spec.initializer_range = config.get<double>("initializer_range", 0.02);
  switch (spec.family) {
    case Family::gpt2:
      parse_gpt2(config, spec);
      break;
    case Family::opt:
      parse_opt(config, spec);
      break;
    default:
      parse_llama_like(config, spec);
      break;
  }
  if (spec.head_dim == 0) {
    require(spec.hidden % spec.heads == 0, ErrorKind::data, origin, ": hidden size ", spec.hidden,
            " is not a multiple of ", spec.heads, " heads");
    spec.head_dim = spec.hidden / spec.heads;
  }
  if (spec.embed_dim == 0) spec.embed_dim = spec.hidden;
  check(config, spec);
  const auto eos = config.json().find("eos_token_id");
  if (eos != config.json().end() && eos->is_array()) {
    spec.eos_ids = config.get<std::vector<std::int32_t>>("eos_token_id");
  } else if (const auto id = config.find<std::int32_t>("eos_token_id")) {
    spec.eos_ids = {*id};
  }
  spec.bos_id = config.get<std::int32_t>("bos_token_id", -1);
  spec.pad_id = config.get<std::int32_t>("pad_token_id", -1);
  spec.config_json = text;
  return spec;
}

std::string config_json(const ModelSpec& spec, DType dtype) {
  Json json = Json::parse(spec.config_json);
  json[spec.family == Family::gpt2 ? "n_layer" : "num_hidden_layers"] = spec.layers;
  // The list must have as many entries as there are layers now.
  if (const auto types = json.find("layer_types"); types != json.end() && types->is_array()) {
    Json list = Json::array();
    for (std::int64_t layer = 0; layer < spec.layers; ++layer)
      list.push_back(layer_type(spec, layer));
    *types = std::move(list);
  }
  // transformers 4 reads torch_dtype, transformers 5 both.
  const char* type = dtype == DType::bf16 ? "bfloat16" : "float32";
  json[json.contains("torch_dtype") ? "torch_dtype" : "dtype"] = type;
  return json.dump(2) + "\n";
}

}  // namespace fathom::model
