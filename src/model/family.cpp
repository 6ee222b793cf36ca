#include "model/family.h"

namespace fathom::model {
namespace {

using autograd::WeightLayout;

const FamilyNames kGpt2{
    .embedding = "transformer.wte.weight",
    .positions = "transformer.wpe.weight",
    .project_in = "",
    .project_out = "",
    .final_norm = "transformer.ln_f",
    .head = "lm_head.weight",
    .layer = "transformer.h.",
    .attention_norm = "ln_1",
    .mlp_norm = "ln_2",
    .qkv = {"attn.c_attn"},
    .attention_out = "attn.c_proj",
    .mlp_in = {"mlp.c_fc"},
    .mlp_out = "mlp.c_proj",
    .layout = WeightLayout::in_out,
    .optional_prefix = "transformer.",
};

const FamilyNames kOpt{
    .embedding = "model.decoder.embed_tokens.weight",
    .positions = "model.decoder.embed_positions.weight",
    .project_in = "model.decoder.project_in.weight",
    .project_out = "model.decoder.project_out.weight",
    .final_norm = "model.decoder.final_layer_norm",
    .head = "lm_head.weight",
    .layer = "model.decoder.layers.",
    .attention_norm = "self_attn_layer_norm",
    .mlp_norm = "final_layer_norm",
    .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
    .attention_out = "self_attn.out_proj",
    .mlp_in = {"fc1"},
    .mlp_out = "fc2",
    .layout = WeightLayout::out_in,
    .optional_prefix = "model.",
};

const FamilyNames kLlama{
    .embedding = "model.embed_tokens.weight",
    .positions = "",
    .project_in = "",
    .project_out = "",
    .final_norm = "model.norm",
    .head = "lm_head.weight",
    .layer = "model.layers.",
    .attention_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
    .attention_out = "self_attn.o_proj",
    .mlp_in = {"mlp.gate_proj", "mlp.up_proj"},
    .mlp_out = "mlp.down_proj",
    .layout = WeightLayout::out_in,
    .optional_prefix = "model.",
};

}  // namespace

const FamilyNames& names_of(Family family) {
  switch (family) {
    case Family::gpt2:
      return kGpt2;
    case Family::opt:
      return kOpt;
    default:
      return kLlama;
  }
}

std::string layer_name(const FamilyNames& names, std::int64_t layer, const std::string& part) {
  return names.layer + std::to_string(layer) + "." + part;
}

namespace {

using Groups = std::vector<std::vector<std::string>>;

void add_norm(const ModelSpec& spec, const std::string& name, Groups& groups) {
  groups.push_back({name + ".weight"});
  if (spec.norm == kernels::NormKind::layer) groups.push_back({name + ".bias"});
}

void add_block(const ModelSpec& spec, std::int64_t layer, Groups& groups) {
  const FamilyNames& names = names_of(spec.family);
  const auto add_linear = [&](const std::vector<const char*>& parts, bool bias) {
    std::vector<std::string> weights, biases;
    for (const char* part : parts) {
      weights.push_back(layer_name(names, layer, part) + ".weight");
      biases.push_back(layer_name(names, layer, part) + ".bias");
    }
    groups.push_back(std::move(weights));
    if (bias) groups.push_back(std::move(biases));
  };
  add_norm(spec, layer_name(names, layer, names.attention_norm), groups);
  add_linear(names.qkv, spec.qkv_bias);
  add_linear({names.attention_out}, spec.out_bias);
  add_norm(spec, layer_name(names, layer, names.mlp_norm), groups);
  add_linear(names.mlp_in, spec.mlp_bias);
  add_linear({names.mlp_out}, spec.mlp_bias);
}

}  // namespace

std::vector<std::vector<std::string>> parameter_groups(const ModelSpec& spec) {
  const FamilyNames& names = names_of(spec.family);
  Groups groups = {{names.embedding}};
  if (spec.learned_positions) groups.push_back({names.positions});
  if (spec.projected()) groups.push_back({names.project_in});
  for (std::int64_t layer = 0; layer < spec.layers; ++layer) add_block(spec, layer, groups);
  if (spec.final_norm) add_norm(spec, names.final_norm, groups);
  if (spec.projected()) groups.push_back({names.project_out});
  if (!spec.tied) groups.push_back({names.head});
  return groups;
}

std::set<std::string> parameter_names(const ModelSpec& spec) {
  std::set<std::string> all;
  for (const auto& group : parameter_groups(spec)) all.insert(group.begin(), group.end());
  return all;
}

}  // namespace fathom::model
