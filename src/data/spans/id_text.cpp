#include "data/spans/id_text.h"

#include <algorithm>
#include <string_view>

#include "data/tokenizers/unicode.h"

namespace fathom::data::spans {
namespace {

constexpr std::string_view kAsciiSpace = " \t\n\v\f\r";

/// Bytes of the white-space character that the text begins with; 0 if it begins with none.
std::size_t leading_space(std::string_view text) {
  if (text.empty()) return 0;
  const auto lead = static_cast<unsigned char>(text[0]);
  // No white space takes four bytes.
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : 3;
  if (text.size() < length || find_invalid_utf8(text.substr(0, length))) return 0;
  return is_white_space(code_point_at(text, 0).value) ? length : 0;
}

/// Bytes of the white-space character that the text ends with; 0 if it ends with none.
std::size_t trailing_space(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(3, text.size()); ++length) {
    if (leading_space(text.substr(text.size() - length)) == length) return length;
  }
  return 0;
}

}  // namespace

IdText text_of(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  IdText result;
  result.ranges.reserve(ids.size());
  std::string& text = result.text;
  bool parted = false;  // by a control token since the last byte of text
  for (const std::int32_t id : ids) {
    const bool control = tokenizer.is_special(id);
    std::string bytes = control ? "" : tokenizer.token_bytes(id);
    if (text.empty()) bytes.erase(0, std::min(bytes.find_first_not_of(kAsciiSpace), bytes.size()));
    if (parted && !text.empty() && !bytes.empty()) text += '\n';
    parted = control || (parted && bytes.empty());
    const auto begin = static_cast<std::uint32_t>(text.size());
    text += bytes;
    result.ranges.push_back({begin, static_cast<std::uint32_t>(text.size())});
  }
  return result;
}

ByteRange stripped(const std::string& text, ByteRange range) {
  const auto left = [&] {
    return std::string_view(text).substr(range.begin, range.end - range.begin);
  };
  while (const std::size_t space = leading_space(left())) {
    range.begin += static_cast<std::uint32_t>(space);
  }
  while (const std::size_t space = trailing_space(left())) {
    range.end -= static_cast<std::uint32_t>(space);
  }
  return range;
}

}  // namespace fathom::data::spans
