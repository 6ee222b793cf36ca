#include "eval/rouge.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "core/files.h"
#include "eval/porter_stemmer.h"
#include "tests/support/expect_error.h"

namespace fathom::eval {
namespace {

using Tokens = std::vector<std::string>;
const std::filesystem::path kGolden = FATHOM_TEST_DATA "/rouge";

TEST(PorterStemmer, AgreesWithNltkOnEveryLongerWordOfTheSample) {
  std::istringstream lines(files::read_text(kGolden / "stems.txt"));
  int words = 0;
  for (std::string word, stem; lines >> word >> stem; ++words) EXPECT_EQ(porter_stem(word), stem);
  EXPECT_GT(words, 9000);
}

TEST(PorterStemmer, KnowsTheExceptions) {
  for (const auto& [word, stem] :
       std::initializer_list<std::pair<const char*, const char*>>{{"skies", "sky"},
                                                                  {"dying", "die"},
                                                                  {"news", "news"},
                                                                  {"dies", "die"},
                                                                  {"died", "die"},
                                                                  {"tried", "tri"},
                                                                  {"enjoy", "enjoy"},
                                                                  {"happy", "happi"},
                                                                  {"as", "as"},
                                                                  {"hopping", "hop"},
                                                                  {"falling", "fall"},
                                                                  {"filing", "file"},
                                                                  {"feed", "feed"},
                                                                  {"agreed", "agre"},
                                                                  {"owing", "owe"},
                                                                  {"theology", "theolog"},
                                                                  {"geology", "geolog"},
                                                                  {"hopefully", "hope"},
                                                                  {"rationally", "ration"},
                                                                  {"controlling", "control"},
                                                                  {"a22ed", "a2"},
                                                                  {"yyyy", "yyyi"},
                                                                  {"", ""}})
    EXPECT_EQ(porter_stem(word), stem) << word;
}

TEST(Rouge, AgreesWithTheReferencePackage) {
  const auto cases = nlohmann::json::parse(files::read_text(kGolden / "scores.json"));
  ASSERT_EQ(cases.size(), 500u);
  for (const auto& c : cases) {
    const double score =
        best_rouge_l(c.at("answer").get<std::string>(), c.at("references").get<Tokens>());
    EXPECT_NEAR(score, c.at("rouge_l").get<double>(), 1e-12) << c.dump();
  }
}

TEST(Rouge, WordsAreLowerCaseAsciiAndStemmedFromFourLetters) {
  EXPECT_EQ(rouge_tokens("The CATS' cars, 3.5-fold; naïve"),
            (Tokens{"the", "cat", "car", "3", "5", "fold", "na", "ve"}));
  EXPECT_EQ(rouge_tokens("was ties eyes"), (Tokens{"was", "tie", "eye"}));
  EXPECT_EQ(rouge_tokens("  \n"), Tokens{});
  EXPECT_EQ(rouge_tokens("สวัสดี"), Tokens{}) << "as the package has it: no letters of its alphabet";
}

/// The table that the definition gives.
std::size_t common_by_table(const Tokens& a, const Tokens& b) {
  std::vector<std::size_t> row(b.size() + 1, 0);
  for (const std::string& word : a) {
    std::size_t diagonal = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t longer = word == b[j] ? diagonal + 1 : std::max(row[j], row[j + 1]);
      diagonal = row[j + 1];
      row[j + 1] = longer;
    }
  }
  return row.back();
}

TEST(Rouge, CommonSubsequencesAreThoseOfTheTable) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const auto draw = [&](std::size_t longest) {
      Tokens tokens(random() % (longest + 1));
      for (std::string& token : tokens)
        token = std::string(1, static_cast<char>('a' + random() % 4));
      return tokens;
    };
    // Around the width of a machine word, where the carries are.
    const Tokens a = draw(round % 2 == 0 ? 70 : 200), b = draw(150);
    EXPECT_EQ(common_subsequence(a, b), common_by_table(a, b)) << a.size() << ", " << b.size();
  }
  const Tokens whole(128, "x");
  EXPECT_EQ(common_subsequence(whole, whole), 128u);
}

TEST(Rouge, TakesTheBestReferenceAndNeedsOne) {
  const Tokens references = {"nothing alike", "a red house"};
  // 2 of 3 words each way.
  EXPECT_DOUBLE_EQ(best_rouge_l("a blue house", references), 2.0 / 3);
  EXPECT_EQ(best_rouge_l("", references), 0) << "a model that says nothing";
  testing::expect_error(
      ErrorKind::data, [] { best_rouge_l("a", {}); }, "no reference");
}

}  // namespace
}  // namespace fathom::eval
