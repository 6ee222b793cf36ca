#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/aligned_text.h"
#include "data/tokenizers/regex.h"

namespace fathom::data {

/// A text and its division into words: merges never cross the end of one. Words are in order and
/// not empty.
struct WordList {
  AlignedText text;
  std::vector<Slice> words;

  /// The whole text as one word.
  explicit WordList(AlignedText whole);
};

/// A step that cuts words into smaller ones. Immutable, safe from several threads.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(WordList& list) const = 0;
  /// Everything that decides the outcome, for the fingerprint.
  virtual std::string describe() const = 0;
};

using PreTokenizerList = std::vector<std::unique_ptr<const PreTokenizer>>;

/// Every match of the pattern and every stretch between matches becomes a word.
std::unique_ptr<const PreTokenizer> make_split(Regex pattern);

/// Puts a space in front of each word that does not begin with one.
std::unique_ptr<const PreTokenizer> make_prefix_space();

/// Which words SentencePiece's "▁" is put in front of.
enum class PrependScheme { always, first, never };

/// Writes spaces as "▁", puts one in front by `scheme` where there is none ("first": only where the
/// original text begins), and cuts in front of each "▁" if `split`.
std::unique_ptr<const PreTokenizer> make_metaspace(PrependScheme scheme, bool split);

}  // namespace fathom::data
