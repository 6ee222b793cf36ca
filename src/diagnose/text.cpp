#include "diagnose/text.h"

#include <algorithm>

#include "core/error.h"

namespace fathom::diagnose {

data::MicroBatch text_batch(std::span<const std::int32_t> ids, std::int64_t vocab) {
  require(!ids.empty(), ErrorKind::data, "the text has no token");
  const std::vector<std::int32_t> mask(ids.size(), 1), labels(ids.size(), data::kNoLabel);
  return data::from_padded(ids, mask, labels, 1, static_cast<std::int64_t>(ids.size()),
                           static_cast<std::int32_t>(vocab));
}

data::MicroBatch front_of(const data::MicroBatch& batch, std::int64_t tokens) {
  FATHOM_CHECK(!batch.empty() && tokens > 0, tokens, " tokens of ", batch.tokens());
  std::int64_t sequences = 1;
  while (sequences < batch.sequences() &&
         batch.cu_seqlens[static_cast<std::size_t>(sequences) + 1] <= tokens)
    ++sequences;
  data::MicroBatch front = data::slice(batch, 0, sequences);
  if (front.tokens() <= tokens) return front;
  for (auto* values : {&front.ids, &front.labels, &front.positions})
    values->resize(static_cast<std::size_t>(tokens));
  front.cu_seqlens = {0, static_cast<std::int32_t>(tokens)};
  front.prompts = {std::min(front.prompts[0], front.cu_seqlens.back())};
  front.label_tokens =
      front.tokens() - std::count(front.labels.begin(), front.labels.end(), data::kNoLabel);
  return front;
}

}  // namespace fathom::diagnose
