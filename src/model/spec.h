#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "kernels/activation.h"
#include "kernels/norm.h"

namespace fathom::model {

/// Names of the published decoder families. A family decides names and the reading of config.json;
/// what the model computes is in the numbers of ModelSpec.
enum class Family { gpt2, opt, llama, mistral, qwen2 };
const char* to_string(Family family);

/// Rotary position embedding: angle of pair i at position p is p * frequency_i.
struct Rope {
  enum class Scaling { none, linear, llama3 };
  double theta = 0;  ///< 0 = no rotary embedding
  Scaling scaling = Scaling::none;
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;  ///< llama3
  double original_positions = 0;                               ///< llama3

  bool enabled() const { return theta > 0; }
  /// The head_dim / 2 frequencies in radians per position, scaling applied.
  std::vector<double> frequencies(std::int64_t head_dim) const;
};

/// A decoder-only transformer in numbers. Sizes are those of the whole model, not of a rank.
struct ModelSpec {
  Family family = Family::llama;
  std::int64_t vocab = 0, hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
  std::int64_t max_positions = 0;
  std::int64_t embed_dim = 0;  ///< width of the token embedding; hidden unless projected (OPT-350m)
  std::int64_t position_offset =
      0;  ///< first row of a learned position table that is used (OPT: 2)
  bool learned_positions = false;
  Rope rope;

  kernels::NormKind norm = kernels::NormKind::rms;
  float norm_eps = 1e-5f;
  bool pre_norm = true;  ///< norms before attention and feed-forward; false: after the residual sum
  bool final_norm = true;  ///< a norm after the last layer

  kernels::Activation activation = kernels::Activation::silu;
  bool gated = true;
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool tied = false;                ///< the head is the token embedding
  bool scale_attention = true;      ///< by 1 / sqrt(head_dim)
  bool scale_by_layer = false;      ///< and by 1 / (layer + 1)
  std::int64_t window = 0;          ///< sliding attention window; 0 = whole
  std::int64_t first_windowed = 0;  ///< first layer with the window

  double initializer_range = 0.02;
  std::vector<std::int32_t> eos_ids;
  std::int32_t bos_id = -1, pad_id = -1;  ///< -1: none

  /// The config.json that the spec was read from; export writes it back with what changed.
  std::string config_json;

  float attention_scale(std::int64_t layer) const;
  std::int64_t window_of(std::int64_t layer) const { return layer >= first_windowed ? window : 0; }
  bool projected() const { return embed_dim != hidden; }
  /// Elements of all parameters, a tied head counted once.
  std::int64_t parameters() const;
};

/// Reads a Hugging Face config.json of transformers 4 or 5. `origin` names it in errors. Throws
/// Error(data) that names the key for anything missing, malformed or not supported.
ModelSpec parse_config(const std::string& json, const std::string& origin);

/// config.json of the spec: what it was read from, with the number of layers as it is now and the
/// type of the weights beside it.
std::string config_json(const ModelSpec& spec, DType dtype = DType::f32);

}  // namespace fathom::model
