#include "train/token_loss.h"

#include <algorithm>

namespace fathom::train {

kernels::TokenLoss token_loss(const LossConfig& config, const data::BatchCounts& counts) {
  const std::int64_t count =
      config.normalise == Normalise::sequences ? counts.sequences : counts.label_tokens;
  const auto denominator = static_cast<double>(std::max<std::int64_t>(1, count));
  const double t2 = config.scale_t2 ? config.temperature * config.temperature : 1;
  return {.ce_weight = static_cast<float>(config.ce_weight / denominator),
          .kd_weight = static_cast<float>(config.kd_weight * t2 / denominator),
          .temperature = static_cast<float>(config.temperature),
          .divergence = {.kind = config.divergence,
                         .beta = static_cast<float>(config.beta),
                         .alpha = static_cast<float>(config.alpha),
                         .detach_mixture = config.detach_mixture}};
}

Tensor row_weights(Device& device, const LossConfig& config, const data::MicroBatch& batch) {
  if (config.normalise == Normalise::tokens) return {};
  std::vector<float> weights;
  for (std::size_t b = 0; b + 1 < batch.cu_seqlens.size(); ++b) {
    const auto rows = std::count_if(batch.labels.begin() + batch.cu_seqlens[b],
                                    batch.labels.begin() + batch.cu_seqlens[b + 1],
                                    [](std::int32_t label) { return label != data::kNoLabel; });
    weights.insert(weights.end(), static_cast<std::size_t>(2 * rows),
                   1.0f / static_cast<float>(rows));
  }
  return Tensor::from_host(device, {static_cast<std::int64_t>(weights.size()) / 2, 2},
                           std::span<const float>(weights));
}

}  // namespace fathom::train
