#include "train/rows.h"

#include "core/error.h"

namespace fathom::train {

DeviceRows upload(Device& device, const data::MicroBatch& batch) {
  FATHOM_CHECK(std::ssize(batch.prompts) == batch.sequences(), batch.prompts.size(), " prompts of ",
               batch.sequences(), " sequences");
  DeviceRows rows;
  rows.count = batch.tokens();
  auto tokens = std::make_shared<autograd::TokenRows>();
  tokens->starts = batch.cu_seqlens;
  std::vector<std::int32_t> samples;
  samples.reserve(batch.ids.size());
  for (std::int64_t b = 0; b < batch.sequences(); ++b) {
    const auto at = static_cast<std::size_t>(b);
    // Random numbers are keyed by the low 32 bits of the sample's number.
    const auto sample = static_cast<std::uint32_t>(batch.sample_index[at]);
    tokens->sample_ids.push_back(sample);
    tokens->prompts.push_back({batch.cu_seqlens[at], batch.prompts[at]});
    samples.insert(samples.end(),
                   static_cast<std::size_t>(batch.cu_seqlens[at + 1] - batch.cu_seqlens[at]),
                   static_cast<std::int32_t>(sample));
  }
  std::vector<std::int32_t> label_rows, labels;
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] == data::kNoLabel) continue;
    label_rows.push_back(static_cast<std::int32_t>(i));
    labels.push_back(batch.labels[i]);
  }
  const auto ids = [&](const std::vector<std::int32_t>& values) {
    return Tensor::from_host(device, {static_cast<std::int64_t>(values.size())},
                             std::span<const std::int32_t>(values));
  };
  tokens->ids = ids(batch.ids);
  tokens->positions = ids(batch.positions);
  tokens->samples = ids(samples);
  rows.label_rows = ids(label_rows);
  rows.labels = ids(labels);
  rows.tokens = std::move(tokens);
  return rows;
}

}  // namespace fathom::train
