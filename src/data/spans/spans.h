#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizers/tokenizer.h"

/// Words and phrases of English text, found by the small English spaCy model. The definitions here
/// are normative; data_tools/spans/README.md states them with examples.
namespace fathom::data::spans {

/// Bytes of the original text, end exclusive.
using data::ByteRange;

/// The values are those of a span cache's `phrase_type`.
enum class PhraseKind : std::uint8_t {
  noun = 0,  ///< spaCy's noun chunk: from the left edge of a nominal head to the head, not nested
  verb = 1,  ///< see VerbPhrases
};

struct Phrase {
  ByteRange range;
  PhraseKind kind = PhraseKind::noun;
  bool operator==(const Phrase&) const = default;
};

/// How a verb phrase is made.
enum class VerbPhrases : std::uint8_t {
  /// AUX* ADV* VERB+ ADV* over universal parts of speech: from each token the longest match, left
  /// to
  /// right; the containment sweep then drops those within an earlier one.
  pattern,
  /// Verb group of the dependency tree: a VERB or AUX that is no auxiliary itself, with the
  /// contiguous run of its auxiliaries, negations and adverbs before it (never starting with an
  /// adverb) and a particle right after it.
  group,
};

/// Which words are given.
enum class Words : std::uint8_t {
  all,         ///< every token that is not space
  in_phrases,  ///< only those inside a kept phrase; each reaches up to the next token's begin
               ///< within the phrase, so that it includes the space after it
};

struct Options {
  VerbPhrases verb = VerbPhrases::pattern;
  Words words = Words::all;
};

/// Spans of one text. `words` are sorted and disjoint. `phrases` are sorted by begin and have
/// passed the containment sweep: among noun and verb phrases sorted by (begin, -end), one that ends
/// at or before the end of a phrase already kept is dropped; those that overlap in part stay.
struct TextSpans {
  std::vector<ByteRange> words;
  std::vector<Phrase> phrases;
  bool operator==(const TextSpans&) const = default;
};

}  // namespace fathom::data::spans
