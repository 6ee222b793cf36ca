// What counts as another model.

#include "model/spec_difference.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>

#include "model_fixture.h"

namespace fathom::test {
namespace {

using model::ModelSpec;

TEST(SpecDifference, NoneBetweenAModelAndItsWrittenConfig) {
  for (const std::string& name : kGoldenModels) {
    const ModelSpec spec = golden_spec(name);
    const ModelSpec again = model::parse_config(model::config_json(spec, DType::bf16), name);
    EXPECT_EQ(model::differences(spec, again), "") << name;
    EXPECT_EQ(model::identity_text(spec), model::identity_text(again)) << name;
  }
}

TEST(SpecDifference, EveryValueThatChangesWhatIsComputed) {
  const ModelSpec spec = golden_spec("llama3");
  const std::pair<const char*, std::function<void(ModelSpec&)>> changes[] = {
      {"family was llama, is mistral", [](ModelSpec& s) { s.family = model::Family::mistral; }},
      {"vocab was ", [](ModelSpec& s) { ++s.vocab; }},
      {"hidden was ", [](ModelSpec& s) { ++s.hidden; }},
      {"layers was 4, is 5", [](ModelSpec& s) { ++s.layers; }},
      {"\n  heads was ", [](ModelSpec& s) { ++s.heads; }},
      {"kv_heads was ", [](ModelSpec& s) { ++s.kv_heads; }},
      {"head_dim was ", [](ModelSpec& s) { ++s.head_dim; }},
      {"ffn was ", [](ModelSpec& s) { ++s.ffn; }},
      {"max_positions was ", [](ModelSpec& s) { ++s.max_positions; }},
      {"embed_dim was ", [](ModelSpec& s) { ++s.embed_dim; }},
      {"position_offset was 0, is 2", [](ModelSpec& s) { s.position_offset = 2; }},
      {"learned_positions was false, is true", [](ModelSpec& s) { s.learned_positions = true; }},
      {"rope.theta was ", [](ModelSpec& s) { s.rope.theta += 1e-9 * s.rope.theta; }},
      {"rope.scaling was llama3, is linear",
       [](ModelSpec& s) { s.rope.scaling = model::Rope::Scaling::linear; }},
      {"rope.factor was ", [](ModelSpec& s) { s.rope.factor *= 2; }},
      {"rope.low_frequency_factor was ", [](ModelSpec& s) { s.rope.low_frequency_factor *= 2; }},
      {"rope.high_frequency_factor was ", [](ModelSpec& s) { s.rope.high_frequency_factor *= 2; }},
      {"rope.original_positions was ", [](ModelSpec& s) { s.rope.original_positions *= 2; }},
      {"norm was rms, is layer", [](ModelSpec& s) { s.norm = kernels::NormKind::layer; }},
      {"norm_eps was 1e-05, is 1e-06", [](ModelSpec& s) { s.norm_eps = 1e-6f; }},
      {"pre_norm was true, is false", [](ModelSpec& s) { s.pre_norm = false; }},
      {"final_norm was true, is false", [](ModelSpec& s) { s.final_norm = false; }},
      {"activation was silu, is gelu_erf",
       [](ModelSpec& s) { s.activation = kernels::Activation::gelu_erf; }},
      {"gated was true, is false", [](ModelSpec& s) { s.gated = false; }},
      {"qkv_bias was false, is true", [](ModelSpec& s) { s.qkv_bias = true; }},
      {"out_bias was false, is true", [](ModelSpec& s) { s.out_bias = true; }},
      {"mlp_bias was false, is true", [](ModelSpec& s) { s.mlp_bias = true; }},
      {"tied was ", [](ModelSpec& s) { s.tied = !s.tied; }},
      {"scale_attention was true, is false", [](ModelSpec& s) { s.scale_attention = false; }},
      {"scale_by_layer was false, is true", [](ModelSpec& s) { s.scale_by_layer = true; }},
      {"window was 0, is 16", [](ModelSpec& s) { s.window = 16; }},
      {"first_windowed was 0, is 2", [](ModelSpec& s) { s.first_windowed = 2; }}};
  for (const auto& [text, change] : changes) {
    ModelSpec other = spec;
    change(other);
    const std::string found = model::differences(spec, other);
    EXPECT_NE(found.find(text), std::string::npos) << text << " is not in: " << found;
    EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 1) << "and nothing else: " << found;
    EXPECT_NE(model::identity_text(spec), model::identity_text(other)) << text;
  }
}

}  // namespace
}  // namespace fathom::test
