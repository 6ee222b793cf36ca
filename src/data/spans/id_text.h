#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/spans/spans.h"
#include "data/tokenizers/tokenizer.h"

namespace fathom::data::spans {

/// A text spelt by token ids, and which of its bytes each id stands for. The ranges ascend, do not
/// overlap, and may begin or end within a character.
struct IdText {
  std::string text;
  std::vector<ByteRange> ranges;
};

/// The text of the ids, from the ids alone: the same for a record of a token file and for what a
/// model has just written, with no second encoding that could disagree. Every token spells its own
/// bytes (a byte-level token its bytes, "▁" a space, "<0x0A>" one byte), so that the text need not
/// be valid UTF-8. Two things are not text:
///
/// - Control tokens have an empty range. Where they stand between two pieces of text, one line
///   break keeps the words on both sides apart; it belongs to no token.
/// - White space (ASCII) at the beginning is left out: the space that SentencePiece models put in
///   front, and what parts a response from its prompt, are no part of a sentence.
///
/// Throws Error(data) for an id outside the vocabulary.
IdText text_of(const Tokenizer& tokenizer, std::span<const std::int32_t> ids);

/// The range without white space (Unicode's White_Space) at its two ends. Only whole characters are
/// taken off: a token that holds a part of one keeps it.
ByteRange stripped(const std::string& text, ByteRange range);

}  // namespace fathom::data::spans
