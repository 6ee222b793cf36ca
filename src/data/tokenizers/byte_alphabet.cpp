#include "data/tokenizers/byte_alphabet.h"

#include <array>

#include "data/tokenizers/unicode.h"

namespace fathom::data {
namespace {

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, 0x144> byte{};

  Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (int value = 0; value < 256; ++value) {
      const bool printable = (value >= 0x21 && value <= 0x7E) || (value >= 0xA1 && value != 0xAD);
      const char32_t written = printable ? static_cast<char32_t>(value) : next++;
      character[static_cast<std::size_t>(value)] = written;
      byte[written] = value;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint next = code_point_at(token, at);
    at += next.length;
    const auto& table = alphabet().byte;
    if (next.value >= table.size() || table[next.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(table[next.value]));
  }
  return bytes;
}

std::string token_of_byte(unsigned char byte) {
  std::string token;
  append_utf8(token, alphabet().character[byte]);
  return token;
}

}  // namespace fathom::data
