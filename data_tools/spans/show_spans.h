#pragma once

#include <string>

#include "data/spans/token_spans.h"

namespace fathom::data_tools {

/// A text with its spans, for people: its words with a bar between any two, then the text with its
/// phrases. Noun phrases stand in [brackets] and verb phrases in {braces}, or, with `colour`, both
/// in the colours of a terminal. Control characters of the text are shown as U+FFFD.
std::string show_spans(const std::string& text, const data::spans::TextSpans& spans, bool colour);

/// The same in tokens: every token between bars, then one line for each phrase with its range of
/// ids. `ids` is a text without a prompt.
std::string show_token_spans(const data::Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                             const data::spans::TokenSpans& spans, bool colour);

}  // namespace fathom::data_tools
