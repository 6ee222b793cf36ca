// Reading Hugging Face's config.json.

#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model_fixture.h"
#include "tests/support/expect_error.h"

namespace fathom::test {
namespace {

using fathom::testing::expect_error;
using kernels::Activation;
using kernels::NormKind;
using model::Family;
using model::ModelSpec;
using model::parse_config;
using Json = nlohmann::json;

// A golden config with some keys replaced; null erases the key.
std::string changed(const std::string& model, const Json& changes) {
  Json json = Json::parse(golden_config(model));
  for (const auto& [key, value] : changes.items()) {
    if (value.is_null()) {
      json.erase(key);
    } else {
      json[key] = value;
    }
  }
  return json.dump();
}

ModelSpec spec_of(const std::string& model, const Json& changes) {
  return parse_config(changed(model, changes), "config.json");
}

template <typename... Parts>
void expect_refused(const std::string& model, const Json& changes, const Parts&... parts) {
  expect_error(
      ErrorKind::data, [&] { parse_config(changed(model, changes), "dir/config.json"); },
      "dir/config.json", parts...);
}

// --- the golden models ---

TEST(Config, Gpt2) {
  const ModelSpec spec = golden_spec("gpt2");
  EXPECT_EQ(spec.family, Family::gpt2);
  EXPECT_EQ(spec.hidden, 64);
  EXPECT_EQ(spec.embed_dim, 64);
  EXPECT_EQ(spec.layers, 4);
  EXPECT_EQ(spec.heads, 4);
  EXPECT_EQ(spec.kv_heads, 4);
  EXPECT_EQ(spec.head_dim, 16);
  EXPECT_EQ(spec.ffn, 256);  // n_inner is null: four times n_embd
  EXPECT_EQ(spec.vocab, 503);
  EXPECT_EQ(spec.max_positions, 64);
  EXPECT_EQ(spec.position_offset, 0);
  EXPECT_TRUE(spec.learned_positions);
  EXPECT_FALSE(spec.rope.enabled());
  EXPECT_EQ(spec.norm, NormKind::layer);
  EXPECT_EQ(spec.activation, Activation::gelu_tanh);
  EXPECT_FALSE(spec.gated);
  EXPECT_TRUE(spec.qkv_bias && spec.out_bias && spec.mlp_bias);
  EXPECT_TRUE(spec.tied && spec.pre_norm && spec.final_norm);
  EXPECT_FLOAT_EQ(spec.attention_scale(3), 0.25f);
}

TEST(Config, Opt) {
  const ModelSpec spec = golden_spec("opt");
  EXPECT_EQ(spec.family, Family::opt);
  EXPECT_EQ(spec.ffn, 128);
  EXPECT_EQ(spec.position_offset, 2);
  EXPECT_EQ(spec.activation, Activation::relu);
  EXPECT_TRUE(spec.tied && spec.pre_norm && spec.final_norm && !spec.projected());

  const ModelSpec post = golden_spec("opt-postln");
  EXPECT_EQ(post.embed_dim, 32);
  EXPECT_TRUE(post.projected());
  EXPECT_FALSE(post.pre_norm || post.final_norm);
}

TEST(Config, Llama) {
  const ModelSpec spec = golden_spec("llama");
  EXPECT_EQ(spec.family, Family::llama);
  EXPECT_EQ(spec.kv_heads, 2);
  EXPECT_EQ(spec.norm, NormKind::rms);
  EXPECT_EQ(spec.activation, Activation::silu);
  EXPECT_TRUE(spec.gated && !spec.tied && !spec.learned_positions);
  EXPECT_FALSE(spec.qkv_bias || spec.out_bias || spec.mlp_bias);
  EXPECT_EQ(spec.rope.theta, 10000);
  EXPECT_EQ(spec.rope.scaling, model::Rope::Scaling::none);
  EXPECT_EQ(spec.eos_ids, std::vector<std::int32_t>{2});
  EXPECT_EQ(spec.bos_id, 1);
}

TEST(Config, Llama3) {
  const ModelSpec spec = golden_spec("llama3");
  EXPECT_EQ(spec.head_dim, 32);  // not hidden / heads
  EXPECT_EQ(spec.kv_heads, 1);
  EXPECT_EQ(spec.rope.scaling, model::Rope::Scaling::llama3);
  EXPECT_EQ(spec.rope.factor, 8);
  EXPECT_EQ(spec.rope.original_positions, 16);
}

TEST(Config, MistralAndQwen2) {
  const ModelSpec mistral = golden_spec("mistral");
  EXPECT_EQ(mistral.window_of(0), 7);
  EXPECT_FALSE(mistral.qkv_bias);
  const ModelSpec qwen2 = golden_spec("qwen2");
  EXPECT_TRUE(qwen2.qkv_bias && qwen2.tied);
  EXPECT_FALSE(qwen2.out_bias || qwen2.mlp_bias);
  EXPECT_EQ(qwen2.window_of(3), 0);
}

// Sizes of published models, from their model cards.
TEST(Config, CountsParameters) {
  const ModelSpec gpt2 = spec_of("gpt2", {{"n_embd", 768},
                                          {"n_head", 12},
                                          {"n_layer", 12},
                                          {"n_positions", 1024},
                                          {"vocab_size", 50257}});
  EXPECT_EQ(gpt2.parameters(), 124439808);
  const ModelSpec smollm2 = spec_of("llama", {{"hidden_size", 576},
                                              {"num_attention_heads", 9},
                                              {"num_key_value_heads", 3},
                                              {"head_dim", 64},
                                              {"num_hidden_layers", 30},
                                              {"intermediate_size", 1536},
                                              {"vocab_size", 49152},
                                              {"tie_word_embeddings", true}});
  EXPECT_EQ(smollm2.parameters(), 134515008);
  const ModelSpec opt350m = spec_of("opt-postln", {{"hidden_size", 1024},
                                                   {"word_embed_proj_dim", 512},
                                                   {"ffn_dim", 4096},
                                                   {"num_attention_heads", 16},
                                                   {"num_hidden_layers", 24},
                                                   {"max_position_embeddings", 2048},
                                                   {"vocab_size", 50272}});
  EXPECT_EQ(opt350m.parameters(), 331196416);
  const ModelSpec qwen25 = spec_of("qwen2", {{"hidden_size", 896},
                                             {"num_attention_heads", 14},
                                             {"num_key_value_heads", 2},
                                             {"num_hidden_layers", 24},
                                             {"intermediate_size", 4864},
                                             {"vocab_size", 151936},
                                             {"layer_types", nullptr}});
  EXPECT_EQ(qwen25.parameters(), 494032768);
}

// --- transformers 4 and 5 ---

TEST(Config, RopeOfTransformers4And5) {
  const Json llama3{{"rope_type", "llama3"},
                    {"factor", 8.0},
                    {"low_freq_factor", 1.0},
                    {"high_freq_factor", 4.0},
                    {"original_max_position_embeddings", 16}};
  Json with_theta = llama3;
  with_theta["rope_theta"] = 500000.0;
  const ModelSpec four = spec_of(
      "llama", {{"rope_parameters", nullptr}, {"rope_theta", 500000.0}, {"rope_scaling", llama3}});
  const ModelSpec five = spec_of("llama", {{"rope_parameters", with_theta}});
  EXPECT_EQ(four.rope.theta, 500000.0);
  EXPECT_EQ(four.rope.frequencies(32), five.rope.frequencies(32));
  const ModelSpec old_key = spec_of(
      "llama",
      {{"rope_parameters", nullptr}, {"rope_scaling", {{"type", "linear"}, {"factor", 4}}}});
  EXPECT_EQ(old_key.rope.scaling, model::Rope::Scaling::linear);
  EXPECT_DOUBLE_EQ(old_key.rope.frequencies(4)[1], 0.01 / 4);
  const ModelSpec none = spec_of("llama", {{"rope_parameters", nullptr}});
  EXPECT_EQ(none.rope.theta, 10000);
}

TEST(Config, Llama3FrequenciesAreStretchedWhereWavesAreLong) {
  model::Rope rope;
  rope.theta = 500000;
  const auto plain = rope.frequencies(128);
  rope.scaling = model::Rope::Scaling::llama3;
  rope.factor = 8;
  rope.original_positions = 8192;
  const auto scaled = rope.frequencies(128);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2 * M_PI / plain[i];
    if (wavelength < 8192.0 / 4) {
      EXPECT_EQ(scaled[i], plain[i]);
    } else if (wavelength > 8192) {
      EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 8);
    } else {
      EXPECT_GE(scaled[i], plain[i] / 8);
      EXPECT_LE(scaled[i], plain[i]);
    }
  }
}

TEST(Config, KeysThatMayBeLeftOut) {
  EXPECT_EQ(spec_of("llama", {{"num_key_value_heads", nullptr}}).kv_heads, 4);
  EXPECT_EQ(spec_of("llama", {{"head_dim", nullptr}}).head_dim, 16);
  EXPECT_EQ(spec_of("llama", {{"tie_word_embeddings", nullptr}}).tied, false);
  EXPECT_EQ(spec_of("gpt2", {{"tie_word_embeddings", nullptr}}).tied, true);
  EXPECT_EQ(spec_of("gpt2", {{"n_positions", nullptr}, {"n_ctx", 32}}).max_positions, 32);
  EXPECT_EQ(spec_of("opt", {{"word_embed_proj_dim", nullptr}}).embed_dim, 64);
  EXPECT_EQ(spec_of("llama", {{"eos_token_id", {2, 5}}}).eos_ids,
            (std::vector<std::int32_t>{2, 5}));
  EXPECT_TRUE(spec_of("llama", {{"eos_token_id", nullptr}}).eos_ids.empty());
}

// Mistral's own default is a window of 4096; only a null takes it away.
TEST(Config, SlidingWindows) {
  EXPECT_EQ(spec_of("mistral", {{"sliding_window", nullptr}}).window, 4096);
  Json json = Json::parse(golden_config("mistral"));
  json["sliding_window"] = nullptr;
  EXPECT_EQ(parse_config(json.dump(), "config.json").window, 0);
  const Json types{"full_attention", "full_attention", "sliding_attention", "sliding_attention"};
  const ModelSpec qwen2 = spec_of("qwen2", {{"use_sliding_window", true},
                                            {"sliding_window", 5},
                                            {"max_window_layers", 2},
                                            {"layer_types", types}});
  EXPECT_EQ(qwen2.window_of(1), 0);
  EXPECT_EQ(qwen2.window_of(2), 5);
}

TEST(Config, AttentionScale) {
  EXPECT_EQ(spec_of("gpt2", {{"scale_attn_weights", false}}).attention_scale(0), 1.0f);
  EXPECT_FLOAT_EQ(spec_of("gpt2", {{"scale_attn_by_inverse_layer_idx", true}}).attention_scale(3),
                  0.25f / 4);
}

// --- errors ---

TEST(ConfigErrors, MissingKeysAreNamed) {
  for (const char* key :
       {"model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "intermediate_size", "max_position_embeddings", "hidden_act"})
    expect_refused("llama", {{key, nullptr}}, key, "missing");
  for (const char* key : {"n_embd", "n_layer", "n_head", "activation_function"})
    expect_refused("gpt2", {{key, nullptr}}, key, "missing");
  for (const char* key : {"ffn_dim", "activation_function"})
    expect_refused("opt", {{key, nullptr}}, key, "missing");
}

TEST(ConfigErrors, UnknownKindsListTheKnown) {
  expect_refused("llama", {{"model_type", "mamba"}}, "mamba", "gpt2, opt, llama, mistral, qwen2");
  expect_refused("llama", {{"hidden_act", "quick_gelu"}}, "hidden_act", "quick_gelu", "silu");
  expect_refused("llama", {{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 4}}}}, "yarn",
                 "default, linear, llama3");
  expect_refused("llama", {{"rope_parameters", {{"rope_type", "llama3"}, {"factor", 4}}}},
                 "original_max_position_embeddings");
}

TEST(ConfigErrors, SizesMustFit) {
  expect_refused("llama", {{"num_key_value_heads", 3}}, "4 attention heads", "3 key/value heads");
  expect_refused("llama", {{"head_dim", nullptr}, {"hidden_size", 66}}, "66", "4 heads");
  expect_refused("llama", {{"head_dim", 15}}, "even head_dim", "15");
  expect_refused("llama", {{"vocab_size", std::int64_t{1} << 31}}, "vocab_size", "32-bit");
  expect_refused("mistral", {{"sliding_window", -1}}, "sliding_window", "-1");
}

TEST(ConfigErrors, SizesMustBePositive) {
  for (const char* key :
       {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "intermediate_size", "max_position_embeddings", "num_key_value_heads", "head_dim"})
    for (const int value : {0, -2})
      expect_refused("llama", {{key, value}}, key, std::to_string(value), "positive");
  for (const char* key : {"n_inner", "n_positions"})
    expect_refused("gpt2", {{key, 0}}, key, "positive");
  expect_refused("opt", {{"word_embed_proj_dim", -1}}, "word_embed_proj_dim", "positive");
}

TEST(ConfigErrors, TypesMustBeRight) {
  expect_refused("llama", {{"hidden_size", "64"}}, "hidden_size", "wrong type");
  expect_refused("llama", {{"num_hidden_layers", 4.5}}, "num_hidden_layers", "4.5");
  expect_refused("llama", {{"num_attention_heads", true}}, "num_attention_heads", "true");
  expect_refused("llama", {{"tie_word_embeddings", 1}}, "tie_word_embeddings", "wrong type");
  for (const char* text : {"", "[]", "{\"model_type\": ", "null"})
    expect_error(
        ErrorKind::data, [&] { parse_config(text, "x.json"); }, "x.json", "not a JSON object");
}

TEST(ConfigErrors, UnlikeLayerTypes) {
  expect_refused("qwen2", {{"layer_types", {"full_attention"}}}, "layer_types", "1 entries",
                 "4 layers");
  const Json mixed{"full_attention", "sliding_attention", "full_attention", "full_attention"};
  expect_refused("qwen2", {{"layer_types", mixed}}, "layer_types", "layer 1", "sliding_attention");
}

TEST(ConfigErrors, WhatIsNotComputed) {
  expect_refused("gpt2", {{"add_cross_attention", true}}, "cross attention", "not supported");
  expect_refused("opt", {{"layer_norm_elementwise_affine", false}}, "norm without weights");
}

// --- writing ---

bool same(const ModelSpec& a, const ModelSpec& b) {
  return a.family == b.family && a.vocab == b.vocab && a.hidden == b.hidden &&
         a.layers == b.layers && a.heads == b.heads && a.kv_heads == b.kv_heads &&
         a.head_dim == b.head_dim && a.ffn == b.ffn && a.max_positions == b.max_positions &&
         a.embed_dim == b.embed_dim && a.norm_eps == b.norm_eps && a.pre_norm == b.pre_norm &&
         a.final_norm == b.final_norm && a.activation == b.activation && a.tied == b.tied &&
         a.qkv_bias == b.qkv_bias && a.window == b.window && a.eos_ids == b.eos_ids &&
         a.parameters() == b.parameters() &&
         a.rope.frequencies(a.head_dim) == b.rope.frequencies(b.head_dim);
}

TEST(ConfigJson, LoadsBackAsTheSameModel) {
  for (const std::string& name : kGoldenModels) {
    const ModelSpec spec = golden_spec(name);
    EXPECT_TRUE(same(parse_config(model::config_json(spec), name), spec)) << name;
  }
}

TEST(ConfigJson, HasTheLayersThatTheModelHasNow) {
  for (const std::string& name : kGoldenModels) {
    ModelSpec spec = golden_spec(name);
    spec.layers = 2;
    const std::string text = model::config_json(spec);
    EXPECT_TRUE(same(parse_config(text, name), spec)) << name;
    const Json json = Json::parse(text);
    if (json.contains("layer_types")) {
      EXPECT_EQ(json.at("layer_types").size(), 2u);
    }
  }
}

}  // namespace
}  // namespace fathom::test
