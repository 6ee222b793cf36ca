#include "eval/accuracy.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace fathom::eval {
namespace {

SetScore score(const char* name, const char* label, const std::vector<const char*>& answers) {
  SetScore result;
  for (const char* answer : answers) result.add(grade(*find_answer_set(name), answer, label));
  return result;
}

TEST(Accuracy, CountsBothExtractorsAndWhatTheyMiss) {
  const SetScore aqua = score("aqua", "C", {"The Answer is C", "C", "none", "(D)"});
  EXPECT_EQ(aqua.questions, 4);
  EXPECT_EQ(aqua.legacy.correct, 1);
  EXPECT_EQ(aqua.legacy.no_match, 1);
  EXPECT_EQ(aqua.strict.correct, 2);
  EXPECT_EQ(aqua.strict.no_match, 1);
  EXPECT_EQ(aqua.accuracy().legacy, 25);
  EXPECT_EQ(aqua.accuracy().strict, 50);
}

TEST(Accuracy, IsThePlainMeanOverSets) {
  const SetScore sets[] = {score("boolq", "true", {"true"}),
                           score("svamp", "2", {"2", "3", "three", "4"})};
  EXPECT_EQ(mean_accuracy(sets).legacy, (100 + 25) / 2.0) << "not 2 of 5";
  EXPECT_EQ(mean_accuracy(sets).strict, (100 + 25) / 2.0);
}

TEST(Accuracy, OfNothingIsAnError) {
  testing::expect_error(
      ErrorKind::data, [] { mean_accuracy({}); }, "no sets");
  const SetScore empty[] = {SetScore{}};
  testing::expect_error(
      ErrorKind::data, [&] { mean_accuracy(empty); }, "no questions");
}

}  // namespace
}  // namespace fathom::eval
