#include "kernels/attention_common.h"

#include <numeric>

#include "kernels/attention_checks.h"

namespace fathom::kernels::tiles {

std::vector<HeadBlock> head_blocks(const std::vector<std::int32_t>& starts, std::int64_t heads,
                                   bool backwards) {
  const auto length = [&](std::int32_t sequence) -> std::int64_t {
    const auto s = static_cast<std::size_t>(sequence);
    return starts[s + 1] - starts[s];
  };
  std::vector<std::int32_t> order(starts.size() - 1);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return length(a) > length(b); });
  std::vector<HeadBlock> items;
  for (const std::int32_t sequence : order) {
    const std::int64_t first_row = starts[static_cast<std::size_t>(sequence)];
    const std::int64_t blocks = (length(sequence) + kTile - 1) / kTile;
    for (std::int64_t head = 0; head < heads; ++head)
      for (std::int64_t i = 0; i < blocks; ++i) {
        const std::int64_t begin = (backwards ? blocks - 1 - i : i) * kTile;
        const std::int64_t count = std::min(kTile, length(sequence) - begin);
        items.push_back({{sequence, first_row, begin, count}, head});
      }
  }
  return items;
}

Block block_at(const Block& other, std::int64_t begin, const std::vector<std::int32_t>& starts) {
  const std::int64_t end = starts[static_cast<std::size_t>(other.sequence) + 1] - other.first_row;
  return {other.sequence, other.first_row, begin, std::min(kTile, end - begin)};
}

std::int64_t first_key(const AttentionShape& shape, const Block& queries) {
  if (shape.window == 0) return 0;
  return std::max<std::int64_t>(0, queries.begin - shape.window + 1) / kTile * kTile;
}

Band band_of(const AttentionShape& shape, const Block& queries, const Block& keys) {
  const std::int64_t unlimited = queries.begin + kTile;  // passes the first key of the sequence
  return {queries.begin - keys.begin, shape.window == 0 ? unlimited : shape.window, queries.count,
          keys.count};
}

void hide_unseen(const Band& band, Range keys, std::int64_t query, float* scores) {
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    const auto first = static_cast<std::int32_t>(j - band.offset - query);
    const auto end = static_cast<std::int32_t>(
        std::min<std::int64_t>(kPanel, j - band.offset - query + band.window));
    float* row = scores + j * kTile + query;
#pragma omp simd
    for (std::int32_t i = 0; i < kPanel; ++i) row[i] = i >= first && i < end ? row[i] : -3e38f;
  }
}

HeadDropout::HeadDropout(const AttentionDropout& dropout, std::int32_t sequence, std::int64_t head)
    : probability_(dropout.probability),
      keep_scale_(1.0f / (1.0f - dropout.probability)),
      key0_(dropout.key0),
      key1_(dropout.key1) {
  if (!active()) return;
  sample_ = dropout.samples[static_cast<std::size_t>(sequence)];
  place_ = dropout_place(dropout.site, dropout.first_head + head);
}

void HeadDropout::mask(const Block& queries, const Block& keys, Range key, std::int64_t query,
                       float* mask) const {
  const float p = probability_, scale = keep_scale_;
  const std::uint32_t key0 = key0_, key1 = key1_, sample = sample_, place = place_;
  const auto position = static_cast<std::uint32_t>(queries.begin + query);
  for (std::int64_t j = key.begin; j < key.end; j += 4) {
    const auto group = static_cast<std::uint32_t>((keys.begin + j) / 4);
    float* row = mask + j * kTile + query;
#pragma omp simd
    for (std::uint32_t i = 0; i < kPanel; ++i) {
      const Philox words = philox(key0, key1, group, position + i, sample, place);
      row[i] = uniform01(words.v[0]) < p ? 0.0f : scale;
      row[i + kTile] = uniform01(words.v[1]) < p ? 0.0f : scale;
      row[i + 2 * kTile] = uniform01(words.v[2]) < p ? 0.0f : scale;
      row[i + 3 * kTile] = uniform01(words.v[3]) < p ? 0.0f : scale;
    }
  }
}

}  // namespace fathom::kernels::tiles
