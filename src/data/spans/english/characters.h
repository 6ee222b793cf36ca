#pragma once

#include <string>
#include <string_view>

/// What Python's str says about characters: the model's features were made with it. Unicode's own
/// properties (data/tokenizers/unicode.h) differ in places.
namespace fathom::data::spans::english {

/// str.isspace of one character: White_Space and the four separators U+001C to U+001F.
bool is_space(char32_t value);

/// str.isalpha: category L*.
bool is_alpha(char32_t value);

/// str.isupper of a letter.
bool is_upper(char32_t value);

/// str.isdigit: decimal digits, superscripts, circled digits.
bool is_digit(char32_t value);

/// str.lower of valid UTF-8.
std::string lower(std::string_view text);

}  // namespace fathom::data::spans::english
