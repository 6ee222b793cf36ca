#pragma once

#include <cstdint>
#include <vector>

#include "data/spans/english/labels.h"
#include "data/spans/english/pos.h"
#include "data/spans/english/tree.h"
#include "data/spans/spans.h"

namespace fathom::data::spans::english {

/// A phrase as a range of tokens, end exclusive.
struct TokenPhrase {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  PhraseKind kind = PhraseKind::noun;
  bool operator==(const TokenPhrase&) const = default;
};

/// Finds the noun and verb phrases of a tagged tree, as spans.h defines them. Immutable.
class PhraseFinder {
 public:
  explicit PhraseFinder(const Labels& labels);

  /// Phrases sorted by begin, after the containment sweep.
  std::vector<TokenPhrase> find(const Tree& tree, const std::vector<Pos>& pos,
                                VerbPhrases verb) const;

  /// The steps on their own, each sorted by begin.
  std::vector<TokenPhrase> noun_chunks(const Tree& tree, const std::vector<Pos>& pos) const;
  std::vector<TokenPhrase> verb_groups(const Tree& tree, const std::vector<Pos>& pos) const;

 private:
  enum Role : std::uint8_t {
    kNominal = 1,
    kConjunct = 2,
    kAuxiliary = 4,
    kNegation = 8,
    kAdverb = 16,
    kParticle = 32
  };
  bool has(std::uint16_t label, unsigned roles) const { return (roles_[label] & roles) != 0; }

  std::vector<std::uint8_t> roles_;  // by label
};

/// AUX* ADV* VERB+ ADV*, the longest from each token at which one begins, without those that end
/// where an earlier one does.
std::vector<TokenPhrase> verb_patterns(const std::vector<Pos>& pos);

/// Sorts by (begin, -end) and drops each phrase that ends at or before the end of one kept before
/// it.
std::vector<TokenPhrase> sweep(std::vector<TokenPhrase> phrases);

}  // namespace fathom::data::spans::english
