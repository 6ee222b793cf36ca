// UTF-8, character classes, regular expressions and form C, against utf8proc and by exhaustion.
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <utf8proc.h>

#include "core/error.h"
#include "data/tokenizers/byte_alphabet.h"
#include "data/tokenizers/normalizer.h"
#include "data/tokenizers/regex.h"
#include "data/tokenizers/unicode.h"

namespace fathom::data {
namespace {

constexpr char32_t kEnd = 0x110000;

bool surrogate(char32_t value) {
  return value >= 0xD800 && value < 0xE000;
}

std::string utf8(std::initializer_list<char32_t> values) {
  std::string text;
  for (const char32_t value : values) append_utf8(text, value);
  return text;
}

std::string reference_nfc(const std::string& text) {
  utf8proc_uint8_t* result = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  EXPECT_GE(length, 0);
  std::string normal(reinterpret_cast<char*>(result), static_cast<std::size_t>(length));
  std::free(result);
  return normal;
}

std::size_t matches(const Regex& regex, const std::string& text) {
  std::vector<Slice> pieces;
  regex.isolate(text, 0, pieces);
  return pieces.size();
}

TEST(Utf8, RoundTripOfEveryCharacter) {
  for (char32_t value = 0; value < kEnd; ++value) {
    if (surrogate(value)) continue;
    const std::string text = utf8({value});
    ASSERT_FALSE(find_invalid_utf8(text).has_value());
    const CodePoint read = code_point_at(text, 0);
    ASSERT_EQ(read.value, value);
    ASSERT_EQ(read.length, text.size());
  }
}

TEST(Utf8, InvalidSequences) {
  EXPECT_EQ(find_invalid_utf8("ab"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("a\x80"), 1u);
  EXPECT_EQ(find_invalid_utf8("é\xC1\xBF"), 2u);
  EXPECT_EQ(find_invalid_utf8("\xE0\x80\x80"), 0u);
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u);
  // One mark for each maximal subpart (Unicode, table 3-8).
  EXPECT_EQ(replace_invalid_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
}

TEST(ByteAlphabet, IsOneToOne) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<unsigned char>(byte);
    EXPECT_EQ(bytes_of_token(token_of_byte(value)), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(token_of_byte(' '), "Ġ");
  EXPECT_EQ(token_of_byte('\n'), "Ċ");
  EXPECT_EQ(bytes_of_token("a b"), std::nullopt);
}

TEST(Regex, SpaceIsTheUnicodeProperty) {
  const Regex space("\\s", "test"), not_space("\\S", "test"), in_class("[^\\sx]", "test");
  for (char32_t value = 1; value < kEnd; ++value) {
    if (surrogate(value)) continue;
    const std::string text = "x" + utf8({value}) + "x";
    const bool is_space = is_white_space(value);
    ASSERT_EQ(matches(space, text), is_space ? 3u : 1u) << static_cast<std::uint32_t>(value);
    ASSERT_EQ(matches(not_space, utf8({value, 0x20})), is_space ? 1u : 2u);
    const bool found = !is_space && value != 'x';
    ASSERT_EQ(matches(in_class, text), found ? 3u : 1u) << static_cast<std::uint32_t>(value);
  }
}

TEST(Regex, BacktrackingHasNoLimit) {
  const std::string spaces(1 << 20, ' ');
  const Regex group("(?:a| |(?: a))+b|\\s+(?!\\S)", "test");
  EXPECT_EQ(matches(group, spaces + "c"), 2u);
}

TEST(Regex, BadPatterns) {
  EXPECT_THROW(Regex("(a", "test"), Error);
  // Oniguruma reads these otherwise than PCRE2, or there is no equal set.
  for (const char* pattern :
       {"[\\S]", "\\w+", "\\b", "^a", "a$", "[a[b]]", "[a&&b]", "[]a]", "\\h", "\\"}) {
    EXPECT_THROW(Regex(pattern, "test"), Error) << pattern;
  }
  EXPECT_NO_THROW(Regex("[^\\r\\n\\p{L}\\]x]?\\[\\d{1,3}(?i:a)\\x{41}", "test"));
}

TEST(Nfc, EveryCharacterAlone) {
  const auto nfc = make_nfc();
  for (char32_t value = 1; value < kEnd; ++value) {
    if (surrogate(value)) continue;
    const std::string text = utf8({value});
    const AlignedText result = nfc->apply(AlignedText(text, 0));
    ASSERT_EQ(result.text(), reference_nfc(text)) << static_cast<std::uint32_t>(value);
    const ByteRange source = result.source({0, result.size()});
    ASSERT_EQ(source, (ByteRange{0, static_cast<std::uint32_t>(text.size())}));
  }
}

TEST(Nfc, RandomText) {
  const auto nfc = make_nfc();
  std::mt19937 random(2);
  const std::pair<char32_t, char32_t> blocks[] = {
      {0x41, 0x5B},     {0xC0, 0x250},    {0x300, 0x370},   {0x300, 0x370},  {0x1100, 0x1200},
      {0xAC00, 0xAC40}, {0x0F71, 0x0F85}, {0x09BE, 0x09D8}, {0x1E00, 0x2000}};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::size_t i = 1 + random() % 12; i > 0; --i) {
      const auto [low, high] = blocks[random() % std::size(blocks)];
      append_utf8(text, low + random() % (high - low));
    }
    const AlignedText result = nfc->apply(AlignedText(text, 0));
    ASSERT_EQ(result.text(), reference_nfc(text));
    std::uint32_t begin = 0;
    for (std::uint32_t i = 0; i < result.size(); ++i) {
      const ByteRange source = result.source({i, i + 1});
      ASSERT_LE(begin, source.begin);
      ASSERT_LT(source.begin, source.end);
      ASSERT_LE(source.end, text.size());
      begin = source.begin;
    }
  }
}

}  // namespace
}  // namespace fathom::data
