// The last step of spaCy's tokenizer: exceptions that contain affixes (":)", "U.S.", "c'mon") are
// found again in what the affix rules made of the text around them, "(:))" or "U.S./Canada".
#include <algorithm>

#include "core/error.h"
#include "data/spans/english/text_tokenizer.h"

namespace fathom::data::spans::english {

void TextTokenizer::add_special_case(const std::string& text,
                                     const std::vector<SpecialToken>& tokens) {
  Pieces pieces;
  std::string joined;
  for (const SpecialToken& token : tokens) {
    special_lexemes_.push_back(token.norm ? lexicon_.make(token.orth, *token.norm)
                                          : lexicon_.make(token.orth));
    pieces.push_back({&special_lexemes_.back(), static_cast<std::uint32_t>(token.orth.size())});
    joined += token.orth;
  }
  require(joined == text, ErrorKind::data, "the span model's exception '", text, "' is cut into '",
          joined, "'");
  longest_special_case_ = std::max(longest_special_case_, text.size());
  special_cases_.emplace(text, std::move(pieces));
}

void TextTokenizer::add_sequence(const std::string& text, Cache& cache) {
  const bool cut = !find_prefix(text).empty() || infix_.find(text) || !find_suffix(text).empty() ||
                   text.find(' ') != std::string::npos;
  if (!cut) return;
  Sequence sequence;
  for (const Word& word : split(text, false, cache)) sequence.orths.push_back(word.lexeme->orth);
  const std::uint64_t first = sequence.orths.front();
  sequences_[first].push_back(std::move(sequence));
}

std::size_t TextTokenizer::longest_sequence(const std::vector<Word>& words, std::size_t at) const {
  const auto candidates = sequences_.find(words[at].lexeme->orth);
  if (candidates == sequences_.end()) return 0;
  std::size_t longest = 0;
  for (const Sequence& sequence : candidates->second) {
    const std::size_t length = sequence.orths.size();
    if (length <= longest || at + length > words.size()) continue;
    const bool equal =
        std::equal(sequence.orths.begin(), sequence.orths.end(), words.begin() + at,
                   [](std::uint64_t orth, const Word& word) { return orth == word.lexeme->orth; });
    if (equal) longest = length;
  }
  return longest;
}

std::vector<Word> TextTokenizer::replace_sequences(std::string_view text,
                                                   std::vector<Word> words) const {
  struct Found {
    std::size_t begin, length;
  };
  std::vector<Found> found;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (const std::size_t length = longest_sequence(words, i)) found.push_back({i, length});
  if (found.empty()) return words;

  // The longest win, then the first; one that a longer one touches with an end is out. Shorter ones
  // from the same token are not even listed, since the longest always touches their begin.
  std::stable_sort(found.begin(), found.end(),
                   [](Found a, Found b) { return a.length > b.length; });
  std::vector<bool> taken(words.size());
  std::vector<std::size_t> length_at(words.size());
  for (const auto& [begin, length] : found) {
    if (!taken[begin] && !taken[begin + length - 1]) length_at[begin] = length;
    std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(begin), length, true);
  }

  std::vector<Word> out;
  out.reserve(words.size());
  for (std::size_t i = 0; i < words.size();) {
    const std::size_t length = std::max<std::size_t>(length_at[i], 1);
    const Word& last = words[i + length - 1];
    // The same tokens with other white space between them are no exception.
    const Pieces* special =
        length_at[i] != 0 ? special_case(text.substr(words[i].begin, last.end - words[i].begin))
                          : nullptr;
    if (special == nullptr) {
      out.insert(out.end(), words.begin() + i, words.begin() + i + length);
    } else {
      std::uint32_t at = words[i].begin;
      for (const Piece& piece : *special) {
        out.push_back({piece.lexeme, at, at + piece.length, false});
        at += piece.length;
      }
      out.back().space_after = last.space_after;
    }
    i += length;
  }
  return out;
}

}  // namespace fathom::data::spans::english
