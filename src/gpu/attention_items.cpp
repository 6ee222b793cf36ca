#include "gpu/attention_items.h"

#include <algorithm>
#include <cstring>

namespace fathom::gpu::attention {

Items tile_items(Device& device, const std::vector<std::int32_t>& starts,
                 const std::vector<std::uint32_t>& samples, std::int64_t tile, std::int64_t window,
                 ItemsOf kind) {
  std::vector<Item> items;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    const std::int32_t length = starts[s + 1] - starts[s];
    for (std::int32_t begin = 0; begin < length; begin += static_cast<std::int32_t>(tile))
      items.push_back({starts[s], begin, length, s < samples.size() ? samples[s] : 0u});
  }
  const auto work = [&](const Item& item) -> std::int64_t {
    const std::int64_t others = kind == ItemsOf::queries ? item.begin : item.length - item.begin;
    return window > 0 ? std::min(others, window) : others;
  };
  std::stable_sort(items.begin(), items.end(),
                   [&](const Item& a, const Item& b) { return work(a) > work(b); });
  static_assert(sizeof(Item) == 4 * sizeof(std::int32_t));
  std::vector<std::int32_t> words(4 * items.size());
  if (!items.empty()) std::memcpy(words.data(), items.data(), items.size() * sizeof(Item));
  const std::int64_t count = std::ssize(items);
  return {Tensor::from_host(device, {count, 4}, words), count};
}

}  // namespace fathom::gpu::attention
