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

}  // namespace fathom::model
