#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizers/aligned_text.h"

namespace fathom::data {

/// Token strings by id and ids by string. Ids may have gaps; a gap has an empty string.
class TokenTable {
 public:
  /// Throws Error(data), naming `where`, for an id below 0 or above 2^24, and if the token or the
  /// id is already taken by another.
  void add(const std::string& token, std::int64_t id, const std::string& where);

  std::optional<std::int32_t> find(std::string_view token) const;
  const std::string& operator[](std::int32_t id) const {
    return strings_[static_cast<std::size_t>(id)];
  }
  /// One past the largest id.
  std::int32_t size() const { return static_cast<std::int32_t>(strings_.size()); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::vector<std::string> strings_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
};

/// What a tokenizer file says about its byte-pair encoding.
struct BpeSpec {
  TokenTable vocab;
  std::vector<std::pair<std::string, std::string>> merges;  ///< first has the highest priority
  std::optional<std::string> unk_token;
  bool fuse_unk = false;       ///< neighbouring unknown characters become one unknown token
  bool byte_fallback = false;  ///< unknown characters become "<0xNN>" tokens
  bool ignore_merges = false;  ///< a word that is itself a token is taken whole
  bool byte_level = false;     ///< tokens are bytes, spelt in GPT-2's alphabet
};

/// Byte-pair encoding of single words. Immutable; safe from several threads, each with its own
/// Scratch.
class BpeModel {
 public:
  struct Token {
    std::int32_t id = 0;
    Slice slice;  ///< bytes of the word
  };

  /// Working memory, reused from word to word.
  struct Scratch {
    struct Symbol {
      std::int32_t id;
      std::uint32_t begin, end;  // an empty symbol was merged into the one before it
      std::int32_t previous, next;
    };
    struct Candidate {
      std::uint64_t priority;  // rank << 32 | position: the smallest goes first
      std::int32_t id;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    std::uint64_t candidates = 0;  ///< ever put on the heap: the work done, at most 3 per symbol
  };

  /// Throws Error(data), naming `where`, for merges outside the vocabulary, an unknown token that
  /// is not in it, or byte fallback without all 256 byte tokens.
  BpeModel(const BpeSpec& spec, const std::string& where);

  /// Appends the tokens of the word. Characters that the vocabulary does not have, with neither
  /// byte fallback nor an unknown token, yield nothing, as in the models' own tokenizers. Takes
  /// O(n log n) steps for n characters.
  void tokenize(std::string_view word, Scratch& scratch, std::vector<Token>& tokens) const;

  /// Everything that decides the outcome beyond the token strings, for the fingerprint.
  std::string describe() const;

 private:
  struct Merge {
    std::uint32_t rank;
    std::int32_t id;
  };

  void split(std::string_view word, Scratch& scratch) const;
  void merge(Scratch& scratch) const;
  void push(Scratch& scratch, std::int32_t position) const;
  const Merge* find(std::int32_t left, std::int32_t right) const;
  std::int32_t symbol_of(std::string_view character) const;
  void load_symbols(const BpeSpec& spec, const std::string& where);

  bool byte_level_;
  bool fuse_unk_;
  bool ignore_merges_;
  std::optional<std::int32_t> unk_id_;
  std::optional<std::array<std::int32_t, 256>> byte_tokens_;
  std::unordered_map<char32_t, std::int32_t> symbols_;   // character (or byte) -> id
  std::unordered_map<std::string, std::int32_t> words_;  // only for ignore_merges
  std::unordered_map<std::uint64_t, Merge> merges_;      // (left << 32 | right)
};

}  // namespace fathom::data
