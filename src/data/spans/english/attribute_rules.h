#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/spans/english/labels.h"
#include "data/spans/english/lexicon.h"
#include "data/spans/english/model_file.h"
#include "data/spans/english/pos.h"
#include "data/spans/english/text_tokenizer.h"

namespace fathom::data::spans::english {

/// spaCy's attribute ruler: parts of speech from tags, labels and words, by rules of which the last
/// that fits counts. All rules look at what tagger and parser gave, never at each other's changes.
class AttributeRules {
 public:
  /// Adds the labels that rules set to `labels`, which must already have those of the parser.
  AttributeRules(const ModelFile& model, const Lexicon& lexicon, Labels& labels);

  /// Parts of speech of a text's tokens. `tags` and `labels` are those that were predicted, and are
  /// changed where a rule says so.
  std::vector<Pos> apply(const std::vector<Word>& words, std::vector<std::uint8_t>& tags,
                         std::vector<std::uint16_t>& labels) const;

 private:
  struct Condition {
    std::bitset<256> tags, labels;
    std::optional<std::vector<std::uint64_t>> lower;  // string ids
    std::optional<bool> is_space;
  };
  struct Change {
    std::vector<Condition> tokens;
    std::size_t index = 0;
    std::optional<std::uint8_t> tag;
    std::optional<Pos> pos;
    std::optional<std::uint16_t> label;
  };
  struct Tokens {
    const std::vector<Word>& words;
    const std::vector<std::uint8_t>& tags;
    const std::vector<std::uint16_t>& labels;
  };

  Condition condition(const RuleToken& token, const ModelFile& model, const Lexicon& lexicon,
                      const Labels& labels) const;
  static bool holds(const Condition& condition, const Tokens& tokens, std::size_t at);
  static bool fits(const Change& rule, const Tokens& tokens, std::size_t at);

  std::vector<Change> rules_;
  std::vector<std::vector<std::size_t>> by_tag_;  // rules whose first token may have the tag
};

}  // namespace fathom::data::spans::english
