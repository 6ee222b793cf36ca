// Everything that is predicted of some three hundred texts, against spaCy itself
// (tests/data/spans/SOURCE.md). No score that decides anything here is a near-tie, so there is no
// tolerance: results are names and numbers.
#include <charconv>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "model.h"

namespace fathom::data::spans {
namespace {

using nlohmann::json;
using testing::extractor;
using testing::pipeline;

const json& golden() {
  static const json loaded = [] {
    std::ifstream file(FATHOM_TEST_DATA "/spans/golden.json");
    return json::parse(file);
  }();
  return loaded;
}

std::uint64_t id(const json& hexadecimal) {
  const std::string text = hexadecimal.get<std::string>();
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

std::vector<Phrase> phrases(const json& list) {
  std::vector<Phrase> out;
  for (const json& p : list)
    out.push_back({{p[0].get<std::uint32_t>(), p[1].get<std::uint32_t>()},
                   static_cast<PhraseKind>(p[2].get<int>())});
  return out;
}

std::string text_of(const json& record) {
  return record.at("text").get<std::string>();
}

TEST(SpanGolden, HasTexts) {
  EXPECT_GE(golden().at("texts").size(), 290u);
}

TEST(SpanGolden, TokensAndFeatures) {
  english::TextTokenizer::Cache cache;
  std::size_t count = 0;
  for (const json& record : golden().at("texts")) {
    const std::string text = text_of(record);
    const auto words = pipeline().tokenizer.tokenize(text, cache);
    const json& tokens = record.at("tokens");
    ASSERT_EQ(words.size(), tokens.size()) << text;
    for (std::size_t i = 0; i < words.size(); ++i, ++count) {
      const json& lexeme = golden().at("lexemes").at(tokens[i][0].get<std::size_t>());
      ASSERT_EQ(words[i].begin, tokens[i][1].get<std::uint32_t>()) << text;
      ASSERT_EQ(words[i].end, tokens[i][2].get<std::uint32_t>()) << text;
      ASSERT_EQ(words[i].space_after, tokens[i][3] == 1) << text;
      for (std::size_t f = 0; f < english::Lexeme::kFeatures; ++f)
        ASSERT_EQ(words[i].lexeme->feature[f], id(lexeme[f + 1])) << lexeme << ", feature " << f;
      ASSERT_EQ(words[i].lexeme->is_space, tokens[i][7] == "SPACE") << text;
    }
  }
  EXPECT_GT(count, 6500u);
}

TEST(SpanGolden, TagsTreesAndPartsOfSpeech) {
  for (const json& record : golden().at("texts")) {
    const std::string text = text_of(record);
    const Analysis analysis = extractor().analyse(text);
    const json& tokens = record.at("tokens");
    ASSERT_EQ(analysis.tokens.size(), tokens.size()) << text;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const Token& token = analysis.tokens[i];
      const json ours = {
          tokens[i][0], token.range.begin, token.range.end, token.space_after ? 1 : 0,   token.tag,
          token.head,   token.dep,         token.pos,       token.sentence_start ? 1 : 0};
      ASSERT_EQ(ours, tokens[i]) << "token " << i << " of: " << text;
    }
  }
}

TEST(SpanGolden, Phrases) {
  for (const json& record : golden().at("texts")) {
    const std::string text = text_of(record);
    EXPECT_EQ(extractor().extract(text, {VerbPhrases::pattern, {}}).phrases,
              phrases(record.at("pattern")))
        << text;
    EXPECT_EQ(extractor().extract(text, {VerbPhrases::group, {}}).phrases,
              phrases(record.at("group")))
        << text;
  }
}

// Every token that is not space is a word.
TEST(SpanGolden, Words) {
  for (const json& record : golden().at("texts")) {
    std::vector<ByteRange> expected;
    for (const json& token : record.at("tokens"))
      if (token[7] != "SPACE")
        expected.push_back({token[1].get<std::uint32_t>(), token[2].get<std::uint32_t>()});
    EXPECT_EQ(extractor().extract(text_of(record), {}).words, expected) << text_of(record);
  }
}

}  // namespace
}  // namespace fathom::data::spans
