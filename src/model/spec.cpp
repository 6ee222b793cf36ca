#include "model/spec.h"

#include <cmath>
#include <numbers>

namespace fathom::model {

const char* to_string(Family family) {
  switch (family) {
    case Family::gpt2:
      return "gpt2";
    case Family::opt:
      return "opt";
    case Family::llama:
      return "llama";
    case Family::mistral:
      return "mistral";
    case Family::qwen2:
      return "qwen2";
  }
  return "unknown";
}

std::vector<double> Rope::frequencies(std::int64_t head_dim) const {
  std::vector<double> result;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    double f = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    if (scaling == Scaling::linear) f /= factor;
    if (scaling == Scaling::llama3) {
      // Long wavelengths are stretched by the factor, short ones kept, those between interpolated.
      const double wavelength = 2 * std::numbers::pi / f;
      const double low = original_positions / low_frequency_factor;
      const double high = original_positions / high_frequency_factor;
      if (wavelength > low) {
        f /= factor;
      } else if (wavelength > high) {
        const double smooth = (original_positions / wavelength - low_frequency_factor) /
                              (high_frequency_factor - low_frequency_factor);
        f = (1 - smooth) * f / factor + smooth * f;
      }
    }
    result.push_back(f);
  }
  return result;
}

float ModelSpec::attention_scale(std::int64_t layer) const {
  double scale = scale_attention ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : 1.0;
  if (scale_by_layer) scale /= static_cast<double>(layer + 1);
  return static_cast<float>(scale);
}

std::int64_t ModelSpec::parameters() const {
  const std::int64_t norm_size = norm == kernels::NormKind::layer ? 2 * hidden : hidden;
  const std::int64_t q = heads * head_dim, kv = kv_heads * head_dim;
  std::int64_t layer = 2 * norm_size + hidden * (q + 2 * kv) + q * hidden;
  if (qkv_bias) layer += q + 2 * kv;
  if (out_bias) layer += hidden;
  layer += hidden * ffn * (gated ? 3 : 2);
  if (mlp_bias) layer += ffn * (gated ? 2 : 1) + hidden;
  std::int64_t total = layers * layer + vocab * embed_dim * (tied ? 1 : 2);
  if (learned_positions) total += (max_positions + position_offset) * hidden;
  if (final_norm) total += norm_size;
  if (projected()) total += 2 * hidden * embed_dim;
  return total;
}

}  // namespace fathom::model
