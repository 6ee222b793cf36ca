#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/spans/english/lexicon.h"
#include "data/tokenizers/pcre.h"

namespace fathom::data::spans::english {

/// One token of a text.
struct Word {
  const Lexeme* lexeme = nullptr;
  std::uint32_t begin = 0;  ///< byte range in the text
  std::uint32_t end = 0;
  bool space_after = false;  ///< a single ' ' follows that belongs to no token
};

/// spaCy's tokenizer for English: white space, exceptions, prefixes, suffixes, URLs, infixes.
/// Immutable; what it remembers lies in a Cache of the caller's.
class TextTokenizer {
 public:
  /// Part of a chunk of text between white space.
  struct Piece {
    const Lexeme* lexeme;
    std::uint32_t length;
  };
  using Pieces = std::vector<Piece>;

  /// Remembers forms and chunks seen, for one thread. The result of tokenizing never depends on it.
  class Cache {
   public:
    /// Forgets everything once it takes some 16 MB. Words made before become invalid.
    void trim();

   private:
    friend class TextTokenizer;
    TextMap<Lexeme> lexemes_;
    TextMap<Pieces> chunks_;
    std::size_t bytes_ = 0;  // about
  };

  /// `lexicon` must outlive the tokenizer.
  TextTokenizer(const ModelFile& model, const Lexicon& lexicon);
  TextTokenizer(const TextTokenizer&) = delete;
  TextTokenizer& operator=(const TextTokenizer&) = delete;

  /// Tokens of valid UTF-8, which together with the spaces after them make up the whole text. They
  /// point into the cache and into the tokenizer.
  std::vector<Word> tokenize(std::string_view text, Cache& cache) const;

 private:
  struct Affixes;
  struct Sequence {
    std::vector<std::uint64_t> orths;
  };

  std::vector<Word> split(std::string_view text, bool with_special_cases, Cache& cache) const;
  Pieces split_chunk(std::string_view chunk, bool with_special_cases, Cache& cache) const;
  std::string_view peel(std::string_view chunk, bool with_special_cases, Affixes& affixes) const;
  void split_middle(std::string_view middle, bool with_special_cases, Cache& cache,
                    Pieces& out) const;
  std::string_view find_prefix(std::string_view chunk) const;
  std::string_view find_suffix(std::string_view chunk) const;
  const Pieces* special_case(std::string_view chunk) const;
  Piece piece(std::string_view form, Cache& cache) const;

  void add_special_case(const std::string& text, const std::vector<SpecialToken>& tokens);
  void add_sequence(const std::string& text, Cache& cache);
  std::size_t longest_sequence(const std::vector<Word>& words, std::size_t at) const;
  std::vector<Word> replace_sequences(std::string_view text, std::vector<Word> words) const;

  const Lexicon& lexicon_;
  Pcre prefix_, suffix_, infix_, url_;
  TextMap<Pieces> special_cases_;
  std::size_t longest_special_case_ = 0;
  std::deque<Lexeme> special_lexemes_;
  /// Exceptions that affix rules would have cut, as the tokens they are cut into; by first token.
  std::unordered_map<std::uint64_t, std::vector<Sequence>> sequences_;
};

}  // namespace fathom::data::spans::english
