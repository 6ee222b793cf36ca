#include "train/rows.h"

namespace fathom::train {

DeviceRows upload(Device& device, const data::MicroBatch& batch) {
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
    samples.insert(samples.end(),
                   static_cast<std::size_t>(batch.cu_seqlens[at + 1] - batch.cu_seqlens[at]),
                   static_cast<std::int32_t>(sample));
  }
  // The position that predicts the first supervised token is the prompt's last.
  for (std::int64_t b = 0; b < batch.sequences(); ++b) {
    const std::int32_t begin = batch.cu_seqlens[static_cast<std::size_t>(b)],
                       end = batch.cu_seqlens[static_cast<std::size_t>(b) + 1];
    std::int32_t row = begin;
    while (row + 1 < end && batch.labels[static_cast<std::size_t>(row)] == data::kNoLabel) ++row;
    tokens->prompts.push_back({begin, row + 1 - begin});
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
