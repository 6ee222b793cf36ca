#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "data/spans/id_text.h"
#include "data/spans/spans.h"
#include "data/token_file.h"

namespace fathom::data::spans {

/// Token ids [begin, end) of a record, never empty.
struct Span {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  bool operator==(const Span&) const = default;
};

/// Words and phrases of one record as ranges of its ids, the prompt's first. Both lists ascend by
/// begin and by end; words are disjoint, phrases may overlap in part; no span crosses from the
/// prompt into the response. Id p of a record is row p of a micro-batch that holds it.
struct TokenSpans {
  std::vector<Span> words;
  std::vector<Span> phrases;
  std::vector<PhraseKind> kinds;   ///< of each phrase
  std::int32_t prompt_length = 0;  ///< a span of the response begins here or later
  bool operator==(const TokenSpans&) const = default;
};

/// Finds the words and phrases of texts, result i for text i: an Extractor with its options. Must
/// be safe from several threads.
using FindSpans = std::function<std::vector<TextSpans>(std::span<const std::string_view>)>;

/// Appends the spans of one text, whose first id is number `first` of the record. A token belongs
/// to a span if its bytes, stripped of white space at the ends, are not empty and lie within the
/// span's; so a token that straddles a border belongs to neither side, and control tokens to
/// nothing. A token span reaches from the first to the last token that belongs to it (blank tokens
/// between the two are inside). Spans without a token are left out, and of neighbouring phrases
/// with the same tokens the first stays. O((spans + tokens) log tokens).
void append_token_spans(const TextSpans& spans, const IdText& text, std::int32_t first,
                        TokenSpans& to);

/// Token spans of records: prompt and response become text and are parsed apart. Throws Error(data)
/// for ids outside the tokenizer's vocabulary.
std::vector<TokenSpans> find_token_spans(const Tokenizer& tokenizer, const FindSpans& find,
                                         std::span<const TokenRecord> records);

/// Leaves out the spans that end beyond row `inputs`; returns how many those were. They are not
/// clipped: what is left of a phrase may lack its head.
std::int64_t cut_spans(TokenSpans& spans, std::int64_t inputs);

}  // namespace fathom::data::spans
