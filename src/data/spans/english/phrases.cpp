#include "data/spans/english/phrases.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace fathom::data::spans::english {

PhraseFinder::PhraseFinder(const Labels& labels) : roles_(labels.size()) {
  const auto assign = [&](Role role, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      if (const std::uint16_t label = labels.find(name)) roles_[label] |= role;
  };
  assign(kNominal, {"oprd", "nsubj", "dobj", "nsubjpass", "pcomp", "pobj", "dative", "appos",
                    "attr", "ROOT"});
  assign(kConjunct, {"conj"});
  assign(kAuxiliary, {"aux", "auxpass"});
  assign(kNegation, {"neg"});
  assign(kAdverb, {"advmod"});
  assign(kParticle, {"prt"});
}

std::vector<TokenPhrase> PhraseFinder::noun_chunks(const Tree& tree,
                                                   const std::vector<Pos>& pos) const {
  std::vector<TokenPhrase> out;
  std::uint32_t end = 0;
  for (std::uint32_t i = 0; i < tree.size(); ++i) {
    if (pos[i] != Pos::noun && pos[i] != Pos::propn && pos[i] != Pos::pron) continue;
    if (tree.left_edge[i] < end) continue;  // would hold an earlier chunk, or part of one
    std::uint32_t top = i;
    if (has(tree.label[i], kConjunct)) {
      // A conjunct is what the first of its coordination is.
      top = tree.head[i];
      while (has(tree.label[top], kConjunct) && tree.head[top] < top) top = tree.head[top];
    }
    if (!has(tree.label[top], kNominal)) continue;
    end = i + 1;
    out.push_back({tree.left_edge[i], end, PhraseKind::noun});
  }
  return out;
}

std::vector<TokenPhrase> PhraseFinder::verb_groups(const Tree& tree,
                                                   const std::vector<Pos>& pos) const {
  std::vector<TokenPhrase> out;
  for (std::uint32_t i = 0; i < tree.size(); ++i) {
    if (pos[i] != Pos::verb && pos[i] != Pos::aux) continue;
    if (has(tree.label[i], kAuxiliary)) continue;
    TokenPhrase group{i, i + 1, PhraseKind::verb};
    for (std::uint32_t t = i; t-- > 0 && tree.head[t] == i;) {
      if (!has(tree.label[t], kAuxiliary | kNegation | kAdverb)) break;
      if (has(tree.label[t], kAuxiliary | kNegation)) group.begin = t;
    }
    const std::uint32_t next = i + 1;
    if (next < tree.size() && tree.head[next] == i && has(tree.label[next], kParticle)) ++group.end;
    out.push_back(group);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const TokenPhrase& a, const TokenPhrase& b) { return a.begin < b.begin; });
  return out;
}

std::vector<TokenPhrase> verb_patterns(const std::vector<Pos>& pos) {
  const auto n = static_cast<std::uint32_t>(pos.size());
  std::vector<TokenPhrase> out;
  for (std::uint32_t begin = 0; begin < n;) {
    std::uint32_t end = begin;
    const auto skip = [&](Pos what) {
      while (end < n && pos[end] == what) ++end;
      return end;
    };
    // The kinds are disjoint, so taking all of each in turn gives the longest match. A match from a
    // token before the end of its verbs would end where this one does, or fail as it does.
    skip(Pos::aux);
    const std::uint32_t verbs = skip(Pos::adv);
    const std::uint32_t verbs_end = skip(Pos::verb);
    skip(Pos::adv);
    if (verbs_end > verbs) out.push_back({begin, end, PhraseKind::verb});
    begin = std::max(verbs_end, begin + 1);
  }
  return out;
}

std::vector<TokenPhrase> sweep(std::vector<TokenPhrase> phrases) {
  // Of equal ranges the first stays: a noun phrase, as callers list these first.
  std::stable_sort(phrases.begin(), phrases.end(), [](const TokenPhrase& a, const TokenPhrase& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::uint32_t end = 0;
  std::erase_if(phrases, [&](const TokenPhrase& phrase) {
    if (phrase.end <= end) return true;
    end = phrase.end;
    return false;
  });
  return phrases;
}

std::vector<TokenPhrase> PhraseFinder::find(const Tree& tree, const std::vector<Pos>& pos,
                                            VerbPhrases verb) const {
  std::vector<TokenPhrase> all = noun_chunks(tree, pos);
  const auto verbs = verb == VerbPhrases::pattern ? verb_patterns(pos) : verb_groups(tree, pos);
  all.insert(all.end(), verbs.begin(), verbs.end());
  return sweep(std::move(all));
}

}  // namespace fathom::data::spans::english
