#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fathom::data {

/// One character of a UTF-8 string.
struct CodePoint {
  char32_t value = 0;
  std::uint32_t length = 0;  ///< bytes
};

/// The character that starts at byte `at` of a valid UTF-8 string.
CodePoint code_point_at(std::string_view text, std::size_t at);

/// Where the character that ends before byte `at` (above 0) begins.
std::size_t character_before(std::string_view text, std::size_t at);

/// Appends one character as UTF-8.
void append_utf8(std::string& text, char32_t value);

/// Byte offset of the first sequence that is not UTF-8 (overlong forms and surrogates included).
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

/// Length of the maximal invalid sequence that begins at byte `at`, as find_invalid_utf8 gives it.
std::size_t invalid_utf8_length(std::string_view text, std::size_t at);

/// The text with every maximal invalid sequence replaced by one U+FFFD, as browsers and Rust do.
std::string replace_invalid_utf8(std::string_view text);

/// Unicode property White_Space.
bool is_white_space(char32_t value);

/// Word character of UTS 18: alphabetic, mark, decimal digit, connector punctuation, joiner.
bool is_word_character(char32_t value);

}  // namespace fathom::data
