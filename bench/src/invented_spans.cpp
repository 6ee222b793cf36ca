#include "bench/src/invented_spans.h"

#include <algorithm>

namespace fathom::bench {
namespace {

data::spans::TokenSpans spans_of(std::int32_t length) {
  data::spans::TokenSpans spans;
  for (std::int32_t begin = 0; begin < length; begin = spans.words.back().end) {
    const std::int32_t tokens = spans.words.size() % 3 == 2 ? 2 : 1;
    spans.words.push_back({begin, std::min(begin + tokens, length)});
  }
  for (std::int32_t begin = 0; begin + 3 <= length; begin += 4) {
    spans.phrases.push_back({begin, begin + 3});
    spans.kinds.push_back(data::spans::PhraseKind::noun);
  }
  return spans;
}

}  // namespace

std::vector<std::vector<data::spans::TokenSpans>> invented_spans(
    const std::vector<data::MicroBatch>& batches) {
  std::vector<std::vector<data::spans::TokenSpans>> found;
  for (const data::MicroBatch& batch : batches) {
    found.emplace_back();
    for (std::size_t s = 1; s < batch.cu_seqlens.size(); ++s)
      found.back().push_back(spans_of(batch.cu_seqlens[s] - batch.cu_seqlens[s - 1]));
  }
  return found;
}

}  // namespace fathom::bench
