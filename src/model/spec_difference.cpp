#include "model/spec_difference.h"

#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"

namespace fathom::model {
namespace {

const char* to_text(kernels::NormKind kind) {
  return kind == kernels::NormKind::layer ? "layer" : "rms";
}

const char* to_text(kernels::Activation kind) {
  switch (kind) {
    case kernels::Activation::gelu_tanh:
      return "gelu_tanh";
    case kernels::Activation::gelu_erf:
      return "gelu_erf";
    case kernels::Activation::relu:
      return "relu";
    case kernels::Activation::silu:
      return "silu";
  }
  return "unknown";
}

const char* to_text(Rope::Scaling scaling) {
  switch (scaling) {
    case Rope::Scaling::none:
      return "none";
    case Rope::Scaling::linear:
      return "linear";
    case Rope::Scaling::llama3:
      return "llama3";
  }
  return "unknown";
}

// The shortest text that reads back as the number: whatever differs is seen to differ.
template <typename Number>
requires std::is_arithmetic_v<Number> std::string to_text(Number number) {
  if constexpr (std::is_same_v<Number, bool>) {
    return number ? "true" : "false";
  } else if constexpr (std::is_integral_v<Number>) {
    return std::to_string(number);
  } else {
    const bool whole = number == std::floor(number) && std::abs(number) < Number{1e9};
    const auto format = whole ? std::chars_format::fixed : std::chars_format::general;
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, number, format).ptr};
  }
}

using Values = std::vector<std::pair<std::string, std::string>>;

// Every member of ModelSpec but those that spec_difference.h leaves out.
Values values_of(const ModelSpec& spec) {
  const Rope& rope = spec.rope;
  return {{"family", to_string(spec.family)},
          {"vocab", to_text(spec.vocab)},
          {"hidden", to_text(spec.hidden)},
          {"layers", to_text(spec.layers)},
          {"heads", to_text(spec.heads)},
          {"kv_heads", to_text(spec.kv_heads)},
          {"head_dim", to_text(spec.head_dim)},
          {"ffn", to_text(spec.ffn)},
          {"max_positions", to_text(spec.max_positions)},
          {"embed_dim", to_text(spec.embed_dim)},
          {"position_offset", to_text(spec.position_offset)},
          {"learned_positions", to_text(spec.learned_positions)},
          {"rope.theta", to_text(rope.theta)},
          {"rope.scaling", to_text(rope.scaling)},
          {"rope.factor", to_text(rope.factor)},
          {"rope.low_frequency_factor", to_text(rope.low_frequency_factor)},
          {"rope.high_frequency_factor", to_text(rope.high_frequency_factor)},
          {"rope.original_positions", to_text(rope.original_positions)},
          {"norm", to_text(spec.norm)},
          {"norm_eps", to_text(spec.norm_eps)},
          {"pre_norm", to_text(spec.pre_norm)},
          {"final_norm", to_text(spec.final_norm)},
          {"activation", to_text(spec.activation)},
          {"gated", to_text(spec.gated)},
          {"qkv_bias", to_text(spec.qkv_bias)},
          {"out_bias", to_text(spec.out_bias)},
          {"mlp_bias", to_text(spec.mlp_bias)},
          {"tied", to_text(spec.tied)},
          {"scale_attention", to_text(spec.scale_attention)},
          {"scale_by_layer", to_text(spec.scale_by_layer)},
          {"window", to_text(spec.window)},
          {"first_windowed", to_text(spec.first_windowed)}};
}

}  // namespace

std::string identity_text(const ModelSpec& spec) {
  std::string text;
  for (const auto& [name, value] : values_of(spec)) text += str("\n  ", name, " ", value);
  return text;
}

std::string differences(const ModelSpec& was, const ModelSpec& is) {
  const Values before = values_of(was), now = values_of(is);
  std::string text;
  for (std::size_t i = 0; i < now.size(); ++i)
    if (before[i].second != now[i].second)
      text += str("\n  ", now[i].first, " was ", before[i].second, ", is ", now[i].second);
  return text;
}

}  // namespace fathom::model
