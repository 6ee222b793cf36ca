#include "data/spans/token_spans.h"

#include <algorithm>
#include <optional>

#include "core/error.h"

namespace fathom::data::spans {
namespace {

/// A token that is not blank.
struct Piece {
  ByteRange range;
  std::int32_t id = 0;  ///< its number in the record
};

std::vector<Piece> pieces_of(const IdText& text, std::int32_t first) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < text.ranges.size(); ++i) {
    const ByteRange range = stripped(text.text, text.ranges[i]);
    if (range.begin < range.end) pieces.push_back({range, first + static_cast<std::int32_t>(i)});
  }
  return pieces;
}

/// Pieces ascend and are disjoint, so those within a range are neighbours.
std::optional<Span> span_of(const std::vector<Piece>& pieces, ByteRange range) {
  const auto begin = std::partition_point(
      pieces.begin(), pieces.end(), [&](const Piece& p) { return p.range.begin < range.begin; });
  const auto end = std::partition_point(begin, pieces.end(),
                                        [&](const Piece& p) { return p.range.end <= range.end; });
  if (begin == end) return std::nullopt;
  return Span{begin->id, std::prev(end)->id + 1};
}

}  // namespace

void append_token_spans(const TextSpans& spans, const IdText& text, std::int32_t first,
                        TokenSpans& to) {
  const std::vector<Piece> pieces = pieces_of(text, first);
  for (const ByteRange word : spans.words) {
    if (const auto span = span_of(pieces, word)) to.words.push_back(*span);
  }
  for (const Phrase& phrase : spans.phrases) {
    const auto span = span_of(pieces, phrase.range);
    if (!span || (!to.phrases.empty() && to.phrases.back() == *span)) continue;
    to.phrases.push_back(*span);
    to.kinds.push_back(phrase.kind);
  }
}

std::vector<TokenSpans> find_token_spans(const Tokenizer& tokenizer, const FindSpans& find,
                                         std::span<const TokenRecord> records) {
  std::vector<IdText> texts;  // of each record the prompt, then the response
  for (const TokenRecord& record : records) {
    const auto prompt = static_cast<std::size_t>(record.prompt_length);
    texts.push_back(text_of(tokenizer, record.ids.first(prompt)));
    texts.push_back(text_of(tokenizer, record.ids.subspan(prompt)));
  }
  std::vector<std::string_view> views;
  for (const IdText& text : texts) views.push_back(text.text);
  const std::vector<TextSpans> found = find(views);
  FATHOM_CHECK(found.size() == texts.size(), found.size(), " results for ", texts.size(), " texts");
  std::vector<TokenSpans> result(records.size());
  for (std::size_t r = 0; r < records.size(); ++r) {
    result[r].prompt_length = records[r].prompt_length;
    append_token_spans(found[2 * r], texts[2 * r], 0, result[r]);
    append_token_spans(found[2 * r + 1], texts[2 * r + 1], records[r].prompt_length, result[r]);
  }
  return result;
}

std::int64_t cut_spans(TokenSpans& spans, std::int64_t inputs) {
  // Ends ascend: what is beyond the cut is the tail of each list.
  const auto kept = [&](const std::vector<Span>& list) {
    const auto end = std::partition_point(list.begin(), list.end(),
                                          [&](const Span& span) { return span.end <= inputs; });
    return static_cast<std::size_t>(end - list.begin());
  };
  const std::size_t words = kept(spans.words), phrases = kept(spans.phrases);
  const std::size_t dropped = spans.words.size() - words + spans.phrases.size() - phrases;
  spans.words.resize(words);
  spans.phrases.resize(phrases);
  spans.kinds.resize(phrases);
  return static_cast<std::int64_t>(dropped);
}

}  // namespace fathom::data::spans
