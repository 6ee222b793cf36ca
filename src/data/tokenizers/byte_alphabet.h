#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fathom::data {

/// GPT-2 writes tokens of bytes in a printable alphabet: each byte has one character, its own code
/// point if that is printable Latin-1, else one from U+0100 on ("Ġ" is the space).

/// The bytes that a token stands for; none if a character is outside the alphabet.
std::optional<std::string> bytes_of_token(std::string_view token);

/// The token's spelling of one byte.
std::string token_of_byte(unsigned char byte);

}  // namespace fathom::data
