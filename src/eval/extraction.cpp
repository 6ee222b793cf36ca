#include "eval/extraction.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"

namespace fathom::eval {
namespace {

using Found = std::optional<std::string>;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
// Bytes of letters outside ASCII belong to words, too.
bool is_word(char c) {
  return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
std::string lowered(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower);
  return result;
}

bool stands_alone(std::string_view text, std::size_t at, std::size_t length) {
  const bool before = at == 0 || !is_word(text[at - 1]);
  const bool after = at + length >= text.size() || !is_word(text[at + length]);
  return before && after;
}

// The first of the words in the text from `from` on; where two begin at one place, the earlier in
// the list. npos for none.
struct Hit {
  std::size_t at = std::string_view::npos;
  std::string_view word;
};
Hit first_word(std::string_view text, std::span<const std::string_view> words, bool alone) {
  for (std::size_t at = 0; at < text.size(); ++at)
    for (const std::string_view word : words)
      if (text.substr(at).starts_with(word) && (!alone || stands_alone(text, at, word.size())))
        return {at, word};
  return {};
}

constexpr std::string_view kLetters[] = {"A", "B", "C", "D", "E"};

std::span<const std::string_view> words_of(const AnswerSet& set) {
  return set.form == AnswerForm::letter ? std::span<const std::string_view>(kLetters) : set.choices;
}

// Decimal text; the whole of it.
std::optional<double> number_of(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string without_commas(std::string_view text) {
  std::string result(text);
  std::erase(result, ',');
  return result;
}

std::size_t digits_from(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

Found legacy_number(std::string_view answer) {
  const std::string text = without_commas(answer);
  Found last;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = at + (text[at] == '-' ? 1 : 0);
    std::size_t end = digits_from(text, first);
    if (end == first) {
      ++at;
      continue;
    }
    if (end < text.size() && text[end] == '.') end = digits_from(text, end + 1);
    last = text.substr(at, end - at);
    at = end;
  }
  return last;
}

// The end of a number that begins at `at` with a digit or ".digit": digits, with commas only in
// front of three more, and decimals.
std::size_t number_end(std::string_view text, std::size_t at) {
  std::size_t end = digits_from(text, at);
  while (end < text.size() && text[end] == ',' && digits_from(text, end + 1) == end + 4) end += 4;
  if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1]))
    end = digits_from(text, end + 1);
  return end;
}

struct Number {
  std::string text;
  std::size_t end = 0;
};

// The next number from `at` on that no letter precedes.
std::optional<Number> next_number(std::string_view text, std::size_t at) {
  for (; at < text.size(); ++at) {
    const bool point = text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1]);
    if (!is_digit(text[at]) && !point) continue;
    const std::size_t end = number_end(text, at);
    if (at > 0 && is_word(text[at - 1])) {
      at = end;
      continue;
    }
    const bool minus = at > 0 && text[at - 1] == '-' && (at == 1 || !is_word(text[at - 2]));
    Number number{(minus ? "-" : "") + without_commas(text.substr(at, end - at)), end};
    // A fraction.
    if (end + 1 < text.size() && text[end] == '/' && is_digit(text[end + 1])) {
      const std::size_t close = number_end(text, end + 1);
      const auto above = number_of(number.text);
      const auto below = number_of(without_commas(text.substr(end + 1, close - end - 1)));
      if (above && below && *below != 0) return Number{std::to_string(*above / *below), close};
    }
    return number;
  }
  return std::nullopt;
}

// What stands behind the last "answer is", if it is there.
std::optional<std::string_view> conclusion(std::string_view answer) {
  constexpr std::string_view kMark = "answer is";
  const std::size_t at = lowered(answer).rfind(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  return answer.substr(at + kMark.size());
}

Found strict_number(std::string_view answer) {
  const auto concluded = conclusion(answer);
  const std::string_view text = concluded.value_or(answer);
  Found found;
  for (auto number = next_number(text, 0); number; number = next_number(text, number->end)) {
    found = number->text;
    if (concluded) break;
  }
  return found;
}

Found strict_word(const AnswerSet& set, std::string_view answer) {
  const auto concluded = conclusion(answer);
  std::string text(concluded.value_or(answer));
  if (set.form == AnswerForm::choice) text = lowered(text);
  const auto words = words_of(set);
  const Hit first = first_word(text, words, true);
  if (first.word.empty()) return std::nullopt;
  if (concluded) return std::string(first.word);
  for (std::size_t at = first.at + 1; at < text.size(); ++at)
    for (const std::string_view word : words)
      if (word != first.word && std::string_view(text).substr(at).starts_with(word) &&
          stands_alone(text, at, word.size()))
        return std::nullopt;
  return std::string(first.word);
}

}  // namespace

std::optional<std::string> extract(const AnswerSet& set, Extractor extractor,
                                   std::string_view answer) {
  const bool legacy = extractor == Extractor::legacy;
  if (set.form == AnswerForm::number) return legacy ? legacy_number(answer) : strict_number(answer);
  if (!legacy) return strict_word(set, answer);
  const Hit hit = first_word(answer, words_of(set), false);
  return hit.word.empty() ? Found() : Found(hit.word);
}

std::string label_of(const AnswerSet& set, std::string_view answer) {
  if (set.form == AnswerForm::number) {
    constexpr std::string_view kMark = "#### ";
    const std::size_t mark = answer.rfind(kMark);
    std::string label =
        without_commas(mark == answer.npos ? answer : answer.substr(mark + kMark.size()));
    std::erase_if(label, [](char c) { return c == ' ' || c == '\n'; });
    require(number_of(label).has_value(), ErrorKind::data, "the label '", answer.substr(0, 60),
            "'; a number expected, as in all questions of ", set.name);
    return label;
  }
  const auto words = words_of(set);
  std::string known;
  for (const std::string_view word : words) known += str(known.empty() ? "" : ", ", word);
  require(std::ranges::find(words, answer) != words.end(), ErrorKind::data, "the label '",
          answer.substr(0, 60), "'; a question of ", set.name, " has one of ", known);
  return std::string(answer);
}

bool is_correct(const AnswerSet& set, const std::optional<std::string>& found,
                std::string_view label) {
  if (!found) return false;
  if (set.form != AnswerForm::number) return *found == label;
  constexpr double kEqual = 1e-3;  // the published evaluation's
  const auto value = number_of(*found), right = number_of(label);
  return value && right && std::abs(*value - *right) <= kEqual;
}

}  // namespace fathom::eval
