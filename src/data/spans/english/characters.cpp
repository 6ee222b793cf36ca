#include "data/spans/english/characters.h"

#include <algorithm>
#include <iterator>
#include <utf8proc.h>

#include "data/tokenizers/unicode.h"

namespace fathom::data::spans::english {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3, kSigma = 0x3C3, kFinalSigma = 0x3C2;
constexpr char32_t kCapitalDottedI = 0x130;

utf8proc_category_t category(char32_t value) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(value));
}

struct Range {
  char32_t first, last;
};

template <std::size_t kCount>
bool in_any(const Range (&ranges)[kCount], char32_t value) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [&](Range r) { return value >= r.first && value <= r.last; });
}

/// Unicode's Cased: upper, lower and title case, and what is so without being a letter.
bool is_cased(char32_t value) {
  constexpr Range others[] = {{0xAA, 0xAA}, {0xBA, 0xBA}, {0x2160, 0x217F}, {0x24B6, 0x24E9}};
  const auto c = category(value);
  return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT ||
         in_any(others, value);
}

/// Unicode's Case_Ignorable: marks, modifiers, and punctuation within words.
bool is_case_ignorable(char32_t value) {
  constexpr Range inside_words[] = {
      {'\'', '\''},     {'.', '.'},       {':', ':'},       {0xB7, 0xB7},
      {0x387, 0x387},   {0x55F, 0x55F},   {0x5F4, 0x5F4},   {0x2018, 0x2019},
      {0x2024, 0x2024}, {0x2027, 0x2027}, {0xFE13, 0xFE13}, {0xFE52, 0xFE52},
      {0xFE55, 0xFE55}, {0xFF07, 0xFF07}, {0xFF0E, 0xFF0E}, {0xFF1A, 0xFF1A}};
  switch (category(value)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return in_any(inside_words, value);
  }
}

/// Unicode's Final_Sigma: a cased character before the sigma at `begin` and none after its `end`,
/// looking past ignorable ones.
bool ends_word(std::string_view text, std::size_t begin, std::size_t end) {
  bool before = false;
  while (begin > 0 && !before) {
    begin = character_before(text, begin);
    const char32_t value = code_point_at(text, begin).value;
    before = is_cased(value) && !is_case_ignorable(value);
    if (!before && !is_case_ignorable(value)) return false;
  }
  while (end < text.size()) {
    const CodePoint next = code_point_at(text, end);
    if (!is_case_ignorable(next.value)) return before && !is_cased(next.value);
    end += next.length;
  }
  return before;
}

}  // namespace

bool is_space(char32_t value) {
  return is_white_space(value) || (value >= 0x1C && value <= 0x1F);
}

bool is_alpha(char32_t value) {
  if (value < 0x80) return (value | 0x20) >= 'a' && (value | 0x20) <= 'z';
  switch (category(value)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool is_upper(char32_t value) {
  return value < 0x80 ? value >= 'A' && value <= 'Z' : category(value) == UTF8PROC_CATEGORY_LU;
}

bool is_digit(char32_t value) {
  constexpr Range not_decimal[] = {
      {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
      {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
      {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
      {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
      {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
  if (value < 0x80) return value >= '0' && value <= '9';
  return category(value) == UTF8PROC_CATEGORY_ND || in_any(not_decimal, value);
}

std::string lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (c.value < 0x80) {
      out += static_cast<char>(is_upper(c.value) ? c.value + 0x20 : c.value);
    } else if (c.value == kCapitalSigma) {
      append_utf8(out, ends_word(text, at, at + c.length) ? kFinalSigma : kSigma);
    } else if (c.value == kCapitalDottedI) {
      out += "i\u0307";
    } else {
      const auto value = static_cast<utf8proc_int32_t>(c.value);
      append_utf8(out, static_cast<char32_t>(utf8proc_tolower(value)));
    }
    at += c.length;
  }
  return out;
}

}  // namespace fathom::data::spans::english
