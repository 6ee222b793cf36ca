#include "eval/answers.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "eval/judge.h"
#include "tests/support/expect_error.h"

namespace fathom::eval {
namespace {

TEST(AnswerText, EndsWhereTheTextEnds) {
  EXPECT_EQ(answer_text(" \n a b \t"), "a b");
  EXPECT_EQ(answer_text("a<|endoftext|>b"), "a");
  EXPECT_EQ(answer_text("<|endoftext|>b"), "");
  EXPECT_EQ(answer_text("a<n><n>b<n>"), "a\n\nb");
  EXPECT_EQ(answer_text("  "), "");
}

TEST(AnswerScores, ArePercentOfTheBestReference) {
  const std::vector<std::string> answers = {"a b", "", "c"};
  const std::vector<std::vector<std::string>> references = {{"x", "a b c d"}, {"a"}, {"c"}};
  const auto scores = score_answers(answers, references);
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_NEAR(scores[0], 100 * 2.0 / 3, 1e-12);  // P = 1, R = 1/2
  EXPECT_EQ(scores[1], 0);
  EXPECT_EQ(scores[2], 100);
}

TEST(AnswerScores, RefuseAnswersThatDoNotMatchTheReferences) {
  const std::vector<std::string> answers = {"a", "b"};
  const std::vector<std::vector<std::string>> few = {{"a"}}, empty = {{"a"}, {}};
  testing::expect_error(
      ErrorKind::data, [&] { score_answers(answers, few); }, "2 answers", "1 lists");
  testing::expect_error(
      ErrorKind::data, [&] { score_answers(answers, empty); }, "no reference");
}

TEST(Spread, IsMeanAndDeviationOfTheSample) {
  const std::vector<double> values = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(spread_of(values).mean, 5);
  EXPECT_DOUBLE_EQ(*spread_of(values).sd, std::sqrt(32.0 / 7));
  EXPECT_EQ(spread_of(std::vector<double>{3}).sd, std::nullopt);
  testing::expect_error(
      ErrorKind::data, [] { spread_of({}); }, "no values");
}

TEST(Judge, SeesQuestionReferenceAndAnswersInTheirPlaces) {
  const Exchange plain[] = {{"Q?", "yes", std::nullopt}};
  const JudgePrompt one = judge_one(plain);
  EXPECT_NE(one.system.find("[[mark]]"), std::string::npos);
  EXPECT_NE(one.user.find("[Begin question]\nQ?\n[End question]"), std::string::npos);
  EXPECT_EQ(one.user.find("reference"), std::string::npos);
  const Exchange a[] = {{"Q?", "yes", "perhaps"}}, b[] = {{"Q?", "no", "perhaps"}};
  const JudgePrompt pair = judge_pair(a, b);
  EXPECT_LT(pair.user.find("perhaps"), pair.user.find("[Begin answer A]\nyes"));
  EXPECT_LT(pair.user.find("[Begin answer A]\nyes"), pair.user.find("[Begin answer B]\nno"));
}

TEST(Judge, SeesTheConversationThatLedToAnAnswer) {
  const Exchange talk[] = {{"Q?", "yes", "perhaps"}, {"Sure?", "no", std::nullopt}};
  const JudgePrompt one = judge_one(talk);
  EXPECT_NE(one.system.find("the last one"), std::string::npos);
  const std::size_t places[] = {
      one.user.find("[Begin question 1]\nQ?"), one.user.find("[Begin reference answer 1]\nperhaps"),
      one.user.find("[Begin answer 1]\nyes"), one.user.find("[Begin question 2]\nSure?"),
      one.user.find("[Begin answer 2]\nno")};
  EXPECT_TRUE(std::ranges::is_sorted(places));
  EXPECT_NE(places[4], std::string::npos);
  EXPECT_EQ(one.user.find("reference answer 2"), std::string::npos);
  const JudgePrompt pair = judge_pair(talk, talk);
  EXPECT_LT(pair.user.find("[Begin answer B 1]"), pair.user.find("[Begin question 2]"));
  EXPECT_NE(pair.user.find("[Begin answer B 2]\nno"), std::string::npos);
}

}  // namespace
}  // namespace fathom::eval
