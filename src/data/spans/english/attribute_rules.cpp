#include "data/spans/english/attribute_rules.h"

#include <algorithm>

#include "core/error.h"

namespace fathom::data::spans::english {
namespace {

/// The numbers below `count` whose names are in the set; of those without one, all or none.
template <typename NameOf>
std::bitset<256> members(const std::optional<NameSet>& set, std::size_t count,
                         const NameOf& name_of) {
  std::bitset<256> out;
  for (std::size_t i = 0; i < count; ++i) {
    const bool named =
        set && std::find(set->names.begin(), set->names.end(), name_of(i)) != set->names.end();
    out[i] = !set || named != set->negated;
  }
  return out;
}

}  // namespace

AttributeRules::AttributeRules(const ModelFile& model, const Lexicon& lexicon, Labels& labels)
    : by_tag_(model.tags.size()) {
  for (const Rule& rule : model.rules)
    if (rule.dep) labels.add(*rule.dep);
  require(model.tags.size() <= 256 && labels.size() <= 256, ErrorKind::data, "a span model of ",
          model.tags.size(), " tags and ", labels.size(), " labels; 256 are supported");
  for (const Rule& rule : model.rules) {
    Change change;
    for (const RuleToken& token : rule.tokens)
      change.tokens.push_back(condition(token, model, lexicon, labels));
    require(rule.index < rule.tokens.size(), ErrorKind::data, "a rule of ", rule.tokens.size(),
            " tokens changes token ", rule.index);
    change.index = rule.index;
    if (rule.tag) {
      const auto tag = std::find(model.tags.begin(), model.tags.end(), *rule.tag);
      require(tag != model.tags.end(), ErrorKind::data, "a rule sets the unknown tag ", *rule.tag);
      change.tag = static_cast<std::uint8_t>(tag - model.tags.begin());
    }
    if (rule.pos) change.pos = pos_of(*rule.pos);
    if (rule.dep) change.label = labels.find(*rule.dep);
    for (std::size_t tag = 0; tag < by_tag_.size(); ++tag)
      if (change.tokens.front().tags[tag]) by_tag_[tag].push_back(rules_.size());
    rules_.push_back(std::move(change));
  }
}

AttributeRules::Condition AttributeRules::condition(const RuleToken& token, const ModelFile& model,
                                                    const Lexicon& lexicon,
                                                    const Labels& labels) const {
  Condition out;
  out.tags = members(token.tag, model.tags.size(), [&](std::size_t i) { return model.tags[i]; });
  out.labels = members(token.dep, labels.size(),
                       [&](std::size_t i) { return labels.name(static_cast<std::uint16_t>(i)); });
  out.is_space = token.is_space;
  if (token.lower) {
    require(!token.lower->negated, ErrorKind::data,
            "a rule excludes words, which is not supported");
    out.lower.emplace();
    for (const std::string& word : token.lower->names) out.lower->push_back(lexicon.id(word));
  }
  return out;
}

bool AttributeRules::holds(const Condition& condition, const Tokens& tokens, std::size_t at) {
  const Lexeme& lexeme = *tokens.words[at].lexeme;
  if (!condition.tags[tokens.tags[at]] || !condition.labels[tokens.labels[at]]) return false;
  if (condition.is_space && *condition.is_space != lexeme.is_space) return false;
  const auto& lower = condition.lower;
  return !lower || std::find(lower->begin(), lower->end(), lexeme.lower) != lower->end();
}

bool AttributeRules::fits(const Change& rule, const Tokens& tokens, std::size_t at) {
  if (at + rule.tokens.size() > tokens.words.size()) return false;
  for (std::size_t i = 0; i < rule.tokens.size(); ++i)
    if (!holds(rule.tokens[i], tokens, at + i)) return false;
  return true;
}

std::vector<Pos> AttributeRules::apply(const std::vector<Word>& words,
                                       std::vector<std::uint8_t>& tags,
                                       std::vector<std::uint16_t>& labels) const {
  const std::size_t n = words.size();
  const Tokens predicted{words, tags, labels};
  std::vector<Pos> pos(n, Pos::none);
  std::vector<std::uint8_t> new_tags = tags;
  std::vector<std::uint16_t> new_labels = labels;
  // The rule (plus one) that each was set by so far: a rule that begins at an earlier token may be
  // a later one.
  struct SetBy {
    std::size_t tag = 0, pos = 0, label = 0;
  };
  std::vector<SetBy> set_by(n);
  const auto set = [](auto& value, const auto& change, std::size_t& by, std::size_t rule) {
    if (!change || rule + 1 < by) return;
    value = *change;
    by = rule + 1;
  };
  for (std::size_t i = 0; i < n; ++i)
    for (const std::size_t number : by_tag_[tags[i]]) {
      const Change& rule = rules_[number];
      if (!fits(rule, predicted, i)) continue;
      const std::size_t at = i + rule.index;
      set(new_tags[at], rule.tag, set_by[at].tag, number);
      set(pos[at], rule.pos, set_by[at].pos, number);
      set(new_labels[at], rule.label, set_by[at].label, number);
    }
  tags = std::move(new_tags);
  labels = std::move(new_labels);
  return pos;
}

}  // namespace fathom::data::spans::english
