#include "eval/porter_stemmer.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace fathom::eval {
namespace {

using std::string_view;
using Replacement = std::pair<string_view, string_view>;  // suffix, what takes its place

constexpr std::array<Replacement, 16> kIrregular = {{{"sky", "sky"},
                                                     {"skies", "sky"},
                                                     {"dying", "die"},
                                                     {"lying", "lie"},
                                                     {"tying", "tie"},
                                                     {"news", "news"},
                                                     {"innings", "inning"},
                                                     {"inning", "inning"},
                                                     {"outings", "outing"},
                                                     {"outing", "outing"},
                                                     {"cannings", "canning"},
                                                     {"canning", "canning"},
                                                     {"howe", "howe"},
                                                     {"proceed", "proceed"},
                                                     {"exceed", "exceed"},
                                                     {"succeed", "succeed"}}};

// In each list the first suffix that fits decides, whether or not its condition then holds.
constexpr std::array<Replacement, 4> kPlurals = {
    {{"sses", "ss"}, {"ies", "i"}, {"ss", "ss"}, {"s", ""}}};
constexpr std::array<Replacement, 3> kRestoredE = {{{"at", "ate"}, {"bl", "ble"}, {"iz", "ize"}}};
constexpr std::array<Replacement, 21> kDoubleSuffixes = {
    {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"},
     {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"}, {"eli", "e"},     {"ousli", "ous"},
     {"ization", "ize"}, {"ation", "ate"},   {"ator", "ate"},  {"alism", "al"},  {"iveness", "ive"},
     {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},  {"iviti", "ive"}, {"biliti", "ble"},
     {"fulli", "ful"}}};
constexpr std::array<Replacement, 7> kFullSuffixes = {{{"icate", "ic"},
                                                       {"ative", ""},
                                                       {"alize", "al"},
                                                       {"iciti", "ic"},
                                                       {"ical", "ic"},
                                                       {"ful", ""},
                                                       {"ness", ""}}};
constexpr std::array<string_view, 19> kDroppedSuffixes = {
    "al",  "ance", "ence", "er",  "ic",  "able", "ible", "ant", "ement", "ment",
    "ent", "ion",  "ou",   "ism", "ate", "iti",  "ous",  "ive", "ize"};

bool is_plain_vowel(char c) {
  return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u';
}

// Calls f(is_vowel) for each letter: y is a vowel behind a consonant.
template <typename F>
void each_letter(string_view word, F f) {
  bool vowel = true;  // of the letter before, so that a leading y is a consonant
  for (const char c : word) {
    vowel = is_plain_vowel(c) || (c == 'y' && !vowel);
    f(vowel);
  }
}

bool has_vowel(string_view word) {
  bool any = false;
  each_letter(word, [&](bool vowel) { any |= vowel; });
  return any;
}

bool ends_with_consonant(string_view word) {
  bool last = true;
  each_letter(word, [&](bool vowel) { last = vowel; });
  return !last;
}

// Porter's m: how often a run of vowels is followed by a run of consonants.
int measure(string_view word) {
  int count = 0;
  bool before = false;
  each_letter(word, [&](bool vowel) {
    count += before && !vowel;
    before = vowel;
  });
  return count;
}

bool ends_with_double_consonant(string_view word) {
  const std::size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && ends_with_consonant(word);
}

// Porter's *o: consonant, vowel, consonant other than w, x, y; or a word of one vowel and one
// consonant.
bool ends_short(string_view word) {
  const std::size_t n = word.size();
  if (n < 2 || !ends_with_consonant(word) || ends_with_consonant(word.substr(0, n - 1)))
    return false;
  if (n == 2) return true;
  const char last = word.back();
  return ends_with_consonant(word.substr(0, n - 2)) && last != 'w' && last != 'x' && last != 'y';
}

string_view without(string_view word, std::size_t letters) {
  return word.substr(0, word.size() - letters);
}

const Replacement* find_suffix(string_view word, std::span<const Replacement> list) {
  const auto fits = [&](const Replacement& entry) { return word.ends_with(entry.first); };
  const auto found = std::find_if(list.begin(), list.end(), fits);
  return found == list.end() ? nullptr : &*found;
}

void replace(std::string& word, std::size_t letters, string_view replacement) {
  word.resize(word.size() - letters);
  word += replacement;
}

// Replaces the suffix if the stem in front of it has a measure above zero.
void replace_measured(std::string& word, std::span<const Replacement> list) {
  const Replacement* rule = find_suffix(word, list);
  if (rule != nullptr && measure(without(word, rule->first.size())) > 0)
    replace(word, rule->first.size(), rule->second);
}

void drop_plural(std::string& word) {  // step 1a
  if (word.size() == 4 && word.ends_with("ies")) return replace(word, 1, "");
  if (const Replacement* rule = find_suffix(word, kPlurals))
    replace(word, rule->first.size(), rule->second);
}

// What a stem gets back when "ed" or "ing" has been taken away.
void repair_stem(std::string& stem) {
  if (const Replacement* rule = find_suffix(stem, kRestoredE)) {
    replace(stem, rule->first.size(), rule->second);
  } else if (ends_with_double_consonant(stem)) {
    const char last = stem.back();
    if (last != 'l' && last != 's' && last != 'z') stem.pop_back();
  } else if (measure(stem) == 1 && ends_short(stem)) {
    stem += 'e';
  }
}

void drop_past_and_ing(std::string& word) {  // step 1b
  if (word.ends_with("ied")) return replace(word, word.size() == 4 ? 1 : 2, "");
  if (word.ends_with("eed")) {
    if (measure(without(word, 3)) > 0) word.pop_back();
    return;
  }
  const std::size_t letters = word.ends_with("ed") ? 2 : word.ends_with("ing") ? 3 : 0;
  if (letters == 0 || !has_vowel(without(word, letters))) return;
  replace(word, letters, "");
  repair_stem(word);
}

void turn_y_to_i(std::string& word) {  // step 1c
  if (word.size() > 2 && word.back() == 'y' && ends_with_consonant(without(word, 1)))
    word.back() = 'i';
}

void shorten_double_suffix(std::string& word) {  // step 2
  while (word.ends_with("alli") && measure(without(word, 4)) > 0) replace(word, 2, "");
  // The l counts with the stem, so that "theologi" goes the way of "philologi".
  if (word.ends_with("logi")) {
    if (measure(without(word, 3)) > 0) word.pop_back();
    return;
  }
  replace_measured(word, kDoubleSuffixes);
}

void drop_suffix(std::string& word) {  // step 4
  for (const string_view suffix : kDroppedSuffixes) {
    if (!word.ends_with(suffix)) continue;
    const string_view stem = without(word, suffix.size());
    const bool fits = suffix != "ion" || stem.ends_with('s') || stem.ends_with('t');
    if (fits && measure(stem) > 1) replace(word, suffix.size(), "");
    return;
  }
}

void tidy_up(std::string& word) {  // steps 5a and 5b
  if (word.ends_with('e')) {
    const string_view stem = without(word, 1);
    const int m = measure(stem);
    if (m > 1 || (m == 1 && !ends_short(stem))) word.pop_back();
  }
  if (word.ends_with("ll") && measure(without(word, 1)) > 1) word.pop_back();
}

}  // namespace

std::string porter_stem(std::string_view word) {
  for (const auto& [form, stem] : kIrregular)
    if (word == form) return std::string(stem);
  std::string result(word);
  if (word.size() <= 2) return result;
  drop_plural(result);
  drop_past_and_ing(result);
  turn_y_to_i(result);
  shorten_double_suffix(result);
  replace_measured(result, kFullSuffixes);  // step 3
  drop_suffix(result);
  tidy_up(result);
  return result;
}

}  // namespace fathom::eval
