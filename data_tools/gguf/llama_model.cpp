#include "data_tools/gguf/llama_model.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace fathom::data_tools {
namespace {

std::int64_t positive(const GgufFile& file, const std::string& key) {
  const auto value = file.get<std::int64_t>(key);
  require(value > 0 && value < (std::int64_t{1} << 31), ErrorKind::data, "'", file.path().string(),
          "': metadata '", key, "' is ", value, "; a positive number is wanted");
  return value;
}

/// Refuses what would change the arithmetic and is not supported.
void refuse_variants(const GgufFile& file) {
  const std::string name = file.path().string();
  const auto architecture = file.get<std::string>("general.architecture");
  require(architecture == "llama", ErrorKind::data, "'", name, "' has architecture '", architecture,
          "'; 'llama' is supported");
  const auto experts = file.get<std::int64_t>("llama.expert_count", std::int64_t{0});
  require(experts == 0, ErrorKind::data, "'", name, "' has ", experts,
          " experts; mixtures of experts are not supported");
  const auto scaling = file.get<std::string>("llama.rope.scaling.type", std::string("none"));
  require(scaling == "none" && file.tensors().count("rope_freqs.weight") == 0, ErrorKind::data, "'",
          name, "' scales its rotary positions (", scaling, "), which is not supported");
}

/// The decimal that was meant by a number stored as f32: 1e-05 and not 9.99999975e-06.
double shortest(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, static_cast<float>(value)).ptr;
  double meant = value;
  std::from_chars(text, end, meant);
  return meant;
}

}  // namespace

LlamaModel read_llama_model(const GgufFile& file) {
  refuse_variants(file);
  const std::string name = file.path().string();
  LlamaModel model{};
  model.layers = positive(file, "llama.block_count");
  require(model.layers <= static_cast<std::int64_t>(file.tensors().size()), ErrorKind::data, "'",
          name, "' claims ", model.layers, " layers and has ", file.tensors().size(), " tensors");
  model.hidden = positive(file, "llama.embedding_length");
  model.feed_forward = positive(file, "llama.feed_forward_length");
  model.heads = positive(file, "llama.attention.head_count");
  model.kv_heads = file.get<std::int64_t>("llama.attention.head_count_kv", model.heads);
  model.context = positive(file, "llama.context_length");
  model.vocabulary =
      static_cast<std::int64_t>(file.get<std::vector<std::string>>("tokenizer.ggml.tokens").size());
  model.head_dim = file.get<std::int64_t>("llama.attention.key_length", model.hidden / model.heads);
  model.rope_theta = shortest(file.get<double>("llama.rope.freq_base", 10000.0));
  model.norm_epsilon = shortest(file.get<double>("llama.attention.layer_norm_rms_epsilon"));
  model.tied = file.tensors().count("output.weight") == 0;
  require(model.kv_heads > 0 && model.heads % model.kv_heads == 0, ErrorKind::data, "'", name,
          "': ", model.heads, " heads cannot share ", model.kv_heads, " key and value heads");
  require(model.head_dim > 0 && model.head_dim % 2 == 0, ErrorKind::data, "'", name,
          "': head width ", model.head_dim, "; an even number is wanted");
  const auto rotary = file.get<std::int64_t>("llama.rope.dimension_count", model.head_dim);
  require(rotary == model.head_dim, ErrorKind::data, "'", name, "' rotates ", rotary, " of ",
          model.head_dim, " dims of a head, which is not supported");
  return model;
}

std::vector<LlamaTensor> llama_tensors(const LlamaModel& model) {
  const std::int64_t d = model.hidden, f = model.feed_forward;
  const std::int64_t q = model.heads * model.head_dim, kv = model.kv_heads * model.head_dim;
  std::vector<LlamaTensor> tensors = {
      {"token_embd.weight", "model.embed_tokens.weight", {model.vocabulary, d}, 0},
      {"output_norm.weight", "model.norm.weight", {d}, 0}};
  if (!model.tied) tensors.push_back({"output.weight", "lm_head.weight", {model.vocabulary, d}, 0});
  const std::vector<LlamaTensor> of_layer = {
      {"attn_norm", "input_layernorm", {d}, 0},
      {"ffn_norm", "post_attention_layernorm", {d}, 0},
      {"attn_q", "self_attn.q_proj", {q, d}, model.heads},
      {"attn_k", "self_attn.k_proj", {kv, d}, model.kv_heads},
      {"attn_v", "self_attn.v_proj", {kv, d}, 0},
      {"attn_output", "self_attn.o_proj", {d, q}, 0},
      {"ffn_gate", "mlp.gate_proj", {f, d}, 0},
      {"ffn_up", "mlp.up_proj", {f, d}, 0},
      {"ffn_down", "mlp.down_proj", {d, f}, 0}};
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    for (const LlamaTensor& t : of_layer)
      tensors.push_back({str("blk.", layer, ".", t.gguf_name, ".weight"),
                         str("model.layers.", layer, ".", t.hf_name, ".weight"), t.shape,
                         t.reordered_heads});
  }
  return tensors;
}

std::vector<float> restore_head_rows(const std::vector<float>& values, std::int64_t rows,
                                     std::int64_t heads) {
  const auto columns = static_cast<std::int64_t>(values.size()) / rows;
  const std::int64_t width = rows / heads, half = width / 2;
  std::vector<float> restored(values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t head = row / width, p = row % width / half, i = row % half;
    const auto* from = values.data() + (head * width + 2 * i + p) * columns;
    std::copy(from, from + columns, restored.data() + row * columns);
  }
  return restored;
}

nlohmann::json llama_config(const LlamaModel& model, const GgufFile& file, DType dtype) {
  nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                           {"model_type", "llama"},
                           {"hidden_size", model.hidden},
                           {"intermediate_size", model.feed_forward},
                           {"num_hidden_layers", model.layers},
                           {"num_attention_heads", model.heads},
                           {"num_key_value_heads", model.kv_heads},
                           {"head_dim", model.head_dim},
                           {"max_position_embeddings", model.context},
                           {"vocab_size", model.vocabulary},
                           {"rope_theta", model.rope_theta},
                           {"rope_scaling", nullptr},
                           {"rms_norm_eps", model.norm_epsilon},
                           {"hidden_act", "silu"},
                           {"attention_bias", false},
                           {"attention_dropout", 0.0},
                           {"mlp_bias", false},
                           {"initializer_range", 0.02},
                           {"tie_word_embeddings", model.tied},
                           {"use_cache", true},
                           {"torch_dtype", dtype == DType::bf16 ? "bfloat16" : "float32"}};
  const std::pair<const char*, const char*> ids[] = {
      {"bos_token_id", "tokenizer.ggml.bos_token_id"},
      {"eos_token_id", "tokenizer.ggml.eos_token_id"},
      {"pad_token_id", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, key] : ids)
    if (file.has(key)) config[name] = file.get<std::int64_t>(key);
  return config;
}

}  // namespace fathom::data_tools
