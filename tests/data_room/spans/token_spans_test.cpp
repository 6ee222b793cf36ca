// From ids to text and from the text's spans to spans of ids: examples, and random pieces of text
// against the rule as it is stated.
#include "data/spans/token_spans.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

#include "data/spans/span_file.h"
#include "data/tokenizers/unicode.h"
#include "tests/data_room/spans/piece_tokenizer.h"
#include "tests/tokenizers/fixtures.h"

namespace fathom::data::spans {
namespace {

using test::PieceTokenizer;
using Ids = std::vector<std::int32_t>;

std::string bytes_in(const IdText& text, std::size_t token) {
  const ByteRange range = text.ranges[token];
  return text.text.substr(range.begin, range.end - range.begin);
}

class RealTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(RealTokenizer, TextOfIdsIsTheirDecoding) {
  const data::test::ScratchFolder folder;
  data::test::write_family(folder, GetParam());
  const auto tokenizer = Tokenizer::load(folder.path());
  const auto strings = data::test::read_json(data::test::data_file("golden/strings.json"));
  std::size_t compared = 0;
  for (const std::string text : strings) {
    const Ids ids = tokenizer->encode(text, false).ids;
    if (std::any_of(ids.begin(), ids.end(), [&](auto id) { return tokenizer->is_special(id); })) {
      continue;  // an unknown character
    }
    const IdText result = text_of(*tokenizer, ids);
    std::string decoded = tokenizer->decode(ids, false);
    decoded.erase(0, std::min(decoded.find_first_not_of(" \t\n\v\f\r"), decoded.size()));
    EXPECT_EQ(result.text, decoded) << text;
    ASSERT_EQ(result.ranges.size(), ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string own = tokenizer->token_bytes(ids[i]);
      EXPECT_TRUE(own.ends_with(bytes_in(result, i))) << own;
      EXPECT_TRUE(result.ranges[i].begin == 0 || bytes_in(result, i) == own) << own;
    }
    ++compared;
  }
  EXPECT_GT(compared, 180u);
}

INSTANTIATE_TEST_SUITE_P(Families, RealTokenizer,
                         ::testing::Values("gpt2", "opt", "qwen2", "smollm2", "tinyllama",
                                           "mistral"),
                         [](const auto& test) { return std::string(test.param); });

TEST(IdText, ControlTokensPartWordsAndBelongToNothing) {
  const PieceTokenizer tokenizer({"user", "\n", "go", " ", ""});
  const std::int32_t end = tokenizer.control();
  const IdText text = text_of(tokenizer, Ids{end, 3, 1, 0, end, 4, end, 2, end});
  EXPECT_EQ(text.text, "user\ngo");
  EXPECT_EQ(text.ranges,
            (std::vector<ByteRange>{
                {0, 0}, {0, 0}, {0, 0}, {0, 4}, {4, 4}, {4, 4}, {4, 4}, {5, 7}, {7, 7}}));
  EXPECT_EQ(text_of(tokenizer, {}).text, "");
  EXPECT_EQ(text_of(tokenizer, Ids{end, end, 1}).text, "");
  EXPECT_EQ(text_of(tokenizer, Ids{0, 2}).text, "usergo") << "nothing between two plain tokens";
  EXPECT_THROW(text_of(tokenizer, Ids{0, 99}), Error);
}

TEST(IdText, StrippingTakesWholeCharactersOnly) {
  const auto bytes = [](const std::string& text, ByteRange range) {
    const ByteRange inner = stripped(text, range);
    return text.substr(inner.begin, inner.end - inner.begin);
  };
  const auto all = [&](const std::string& text) {
    return bytes(text, {0, static_cast<std::uint32_t>(text.size())});
  };
  EXPECT_EQ(all(" dog\n"), "dog");
  EXPECT_EQ(all("\u00A0\u3000 dog\u2028\u1680\u0085"), "dog");
  EXPECT_EQ(all(" \t\r\n\v\f\u00A0"), "");
  EXPECT_EQ(all(""), "");
  EXPECT_EQ(all("\u200Bdog"), "\u200Bdog") << "a zero-width space is no white space";
  const std::string spaced = "x\u00A0y";
  EXPECT_EQ(bytes(spaced, {0, 2}), "x\xC2");
  EXPECT_EQ(bytes(spaced, {2, 4}), "\xA0y");
  EXPECT_EQ(bytes(spaced, {1, 3}), "");
  EXPECT_EQ(all("\xC2\xA0\xA0"), "\xA0");
  EXPECT_EQ(all("\xE3\x80"), "\xE3\x80");
}

TokenSpans map_one(const PieceTokenizer& tokenizer, const Ids& ids, const TextSpans& spans) {
  TokenSpans result;
  append_token_spans(spans, text_of(tokenizer, ids), 0, result);
  EXPECT_NO_THROW(check_spans(result, std::ssize(ids), "result"));
  return result;
}

TEST(TokenSpans, TokensInsideBelong) {
  const PieceTokenizer tokenizer({"(", "cat", " sat", ".\n", " ", "s", " dog"});
  // "(cats sat.\n dog"
  const TextSpans spans = {{{0, 1}, {1, 5}, {6, 9}, {9, 10}, {12, 15}},
                           {{{1, 5}, PhraseKind::noun}, {{6, 15}, PhraseKind::verb}}};
  const TokenSpans result = map_one(tokenizer, {0, 1, 5, 2, 3, 6}, spans);
  EXPECT_EQ(result.words, (std::vector<Span>{{0, 1}, {1, 3}, {3, 4}, {4, 5}, {5, 6}}));
  EXPECT_EQ(result.phrases, (std::vector<Span>{{1, 3}, {3, 6}}));
  EXPECT_EQ(result.kinds, (std::vector{PhraseKind::noun, PhraseKind::verb}));
}

TEST(TokenSpans, TokensAcrossABorderBelongToNeitherSide) {
  const PieceTokenizer tokenizer({"do", "n't", "don", "'t", ").", "x"});
  // "don't" as do|n't by the words, don|'t by the tokens
  const TokenSpans split = map_one(tokenizer, {2, 3}, {{{0, 2}, {2, 5}}, {}});
  EXPECT_EQ(split.words, (std::vector<Span>{{1, 2}})) << "'t lies within n't, don within neither";
  const TokenSpans joined = map_one(tokenizer, {5, 4}, {{{0, 1}, {1, 2}, {2, 3}}, {}});
  EXPECT_EQ(joined.words, (std::vector<Span>{{0, 1}}));
}

TEST(TokenSpans, EqualNeighboursAreOne) {
  const PieceTokenizer tokenizer({"a", "bc", "d"});
  // The noun [a b] and the verb [a b c'], c' a part of a token: both keep only the token a.
  const TokenSpans result = map_one(
      tokenizer, {0, 1, 2},
      {{}, {{{0, 1}, PhraseKind::noun}, {{0, 2}, PhraseKind::verb}, {{1, 4}, PhraseKind::verb}}});
  EXPECT_EQ(result.phrases, (std::vector<Span>{{0, 1}, {1, 3}}));
  EXPECT_EQ(result.kinds, (std::vector{PhraseKind::noun, PhraseKind::verb}));
}

TEST(TokenSpans, PromptAndResponseAreParsedApart) {
  const PieceTokenizer tokenizer({"New", " York", " is", " big"});
  const Ids ids = {0, 1, 2, 3, tokenizer.control()};
  std::vector<std::string> parsed;
  const FindSpans find = [&](std::span<const std::string_view> texts) {
    parsed.assign(texts.begin(), texts.end());
    return test::find_each_plain(texts);
  };
  const TokenRecord record{ids, 2};
  const TokenSpans result = find_token_spans(tokenizer, find, std::span(&record, 1)).front();
  EXPECT_EQ(parsed, (std::vector<std::string>{"New York", "is big"}));
  EXPECT_EQ(result.prompt_length, 2);
  EXPECT_EQ(result.words, (std::vector<Span>{{0, 1}, {1, 2}, {2, 3}, {3, 4}}));
  EXPECT_TRUE(result.phrases.empty()) << "no phrase of three words crosses the border";
}

TEST(TokenSpans, CutLeavesOutWhatEndsBeyond) {
  const TokenSpans whole = {{{0, 1}, {1, 3}, {4, 5}},
                            {{0, 3}, {1, 5}, {4, 6}},
                            {PhraseKind::noun, PhraseKind::verb, PhraseKind::noun},
                            2};
  TokenSpans spans = whole;
  EXPECT_EQ(cut_spans(spans, 6), 0);
  EXPECT_EQ(spans, whole);
  EXPECT_EQ(cut_spans(spans, 4), 3);
  EXPECT_EQ(spans, (TokenSpans{{{0, 1}, {1, 3}}, {{0, 3}}, {PhraseKind::noun}, 2}));
  EXPECT_EQ(cut_spans(spans, 0), 3);
  EXPECT_TRUE(spans.words.empty() && spans.phrases.empty() && spans.kinds.empty());
}

/// The rule, word by word: which tokens belong to a range, one by one.
std::vector<std::int32_t> belonging(const IdText& text, ByteRange range) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < text.ranges.size(); ++i) {
    const std::string own = bytes_in(text, i);
    std::size_t first = 0, last = own.size();
    while (first < last && (own[first] == ' ' || own[first] == '\n')) ++first;
    while (last > first && (own[last - 1] == ' ' || own[last - 1] == '\n')) --last;
    const std::size_t begin = text.ranges[i].begin + first, end = text.ranges[i].begin + last;
    if (first < last && begin >= range.begin && end <= range.end)
      tokens.push_back(static_cast<std::int32_t>(i));
  }
  return tokens;
}

std::vector<Span> expected_spans(const IdText& text, const std::vector<ByteRange>& ranges) {
  std::vector<Span> spans;
  for (const ByteRange range : ranges) {
    const auto tokens = belonging(text, range);
    if (tokens.empty()) continue;
    const Span span{tokens.front(), tokens.back() + 1};
    if (spans.empty() || !(spans.back() == span)) spans.push_back(span);
  }
  return spans;
}

TEST(TokenSpans, RandomPiecesFollowTheRule) {
  const PieceTokenizer tokenizer({"a", " b", "c ", "de f", " ", "\n", "(", ").", " gh", "\xC3",
                                  "\xA9", "é", " \n", "i'", "'t j"});
  std::mt19937 random(17);
  const auto below = [&](std::size_t n) { return random() % n; };
  for (int round = 0; round < 3000; ++round) {
    Ids ids(below(24));
    for (auto& id : ids)
      id = static_cast<std::int32_t>(below(static_cast<std::size_t>(tokenizer.vocab_size())));
    const IdText text = text_of(tokenizer, ids);
    // Words as found, and phrases between any two bytes, swept so that begins and ends ascend.
    TextSpans spans = {test::find_plain(text.text).words, {}};
    std::vector<ByteRange> phrases;
    for (std::uint32_t begin = 0; begin < text.text.size(); ++begin) {
      const auto end = static_cast<std::uint32_t>(begin + 1 + below(text.text.size() - begin));
      if (below(3) == 0 && (phrases.empty() || end > phrases.back().end)) {
        phrases.push_back({begin, end});
        spans.phrases.push_back({{begin, end}, PhraseKind::noun});
      }
    }
    const TokenSpans result = map_one(tokenizer, ids, spans);
    ASSERT_EQ(result.words, expected_spans(text, spans.words)) << text.text;
    ASSERT_EQ(result.phrases, expected_spans(text, phrases)) << text.text;
  }
}

}  // namespace
}  // namespace fathom::data::spans
