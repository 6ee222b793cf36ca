// What the two extractors find, the places where they differ above all.

#include "eval/extraction.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace fathom::eval {
namespace {

using Found = std::optional<std::string>;

const AnswerSet& set(const char* name) {
  const AnswerSet* found = find_answer_set(name);
  if (found == nullptr) throw std::runtime_error(name);
  return *found;
}
Found legacy(const char* name, std::string_view answer) {
  return extract(set(name), Extractor::legacy, answer);
}
Found strict(const char* name, std::string_view answer) {
  return extract(set(name), Extractor::strict, answer);
}

TEST(AnswerSets, HaveOurNamesAndThePublishedOnes) {
  EXPECT_EQ(&set("siqa"), &set("social_i_qa"));
  EXPECT_EQ(&set("arc_c"), &set("ARC-Challenge"));
  EXPECT_EQ(find_answer_set("AddSub"), nullptr) << "in the training data of math_10k";
  const std::vector<std::string> names = {"arithmetic", "arc_e", "ARC-Easy", "gsm8k"};
  std::vector<std::string_view> chosen;
  for (const AnswerSet* one : choose_answer_sets(names)) chosen.push_back(one->name);
  EXPECT_EQ(chosen, (std::vector<std::string_view>{"arc_e", "gsm8k", "mawps", "svamp", "aqua"}));
  EXPECT_EQ(choose_answer_sets(std::vector<std::string>{"commonsense"}).size(), 8u);
  testing::expect_error(
      ErrorKind::config,
      [] {
        choose_answer_sets(std::vector<std::string>{"boolq", "arc"});
      },
      "task 'arc'", "commonsense, arithmetic, boolq", "aqua");
}

TEST(Extraction, OfWhatTunedModelsWrite) {
  for (const Extractor extractor : {Extractor::legacy, Extractor::strict}) {
    EXPECT_EQ(extract(set("boolq"), extractor, "the correct answer is false"), "false");
    EXPECT_EQ(extract(set("piqa"), extractor, "the correct answer is solution2"), "solution2");
    EXPECT_EQ(extract(set("siqa"), extractor, "the correct answer is answer3"), "answer3");
    EXPECT_EQ(extract(set("hellaswag"), extractor, "the correct answer is ending4"), "ending4");
    EXPECT_EQ(extract(set("winogrande"), extractor, "the correct answer is option1"), "option1");
    EXPECT_EQ(extract(set("svamp"), extractor, "5 - 3 = 2. The answer is 4 cats"), "4");
    EXPECT_EQ(extract(set("mawps"), extractor, "so -1.5"), "-1.5");
    EXPECT_EQ(extract(set("gsm8k"), extractor, "1,234 apples"), "1234");
    EXPECT_EQ(extract(set("aqua"), extractor, "(B)"), "B");
    for (const char* name : {"boolq", "arc_e", "gsm8k", "aqua"}) {
      EXPECT_EQ(extract(set(name), extractor, "no idea"), std::nullopt) << name;
      EXPECT_EQ(extract(set(name), extractor, ""), std::nullopt) << name;
    }
  }
}

// The published evaluation's mistakes, and what a reader finds.
TEST(Extraction, DiffersInTheKnownTraps) {
  EXPECT_EQ(legacy("aqua", "The Answer is C"), "A");
  EXPECT_EQ(strict("aqua", "The Answer is C"), "C");
  EXPECT_EQ(legacy("boolq", "untrue"), "true");
  EXPECT_EQ(strict("boolq", "untrue"), std::nullopt);
  EXPECT_EQ(legacy("svamp", "range 5-3"), "-3");
  EXPECT_EQ(strict("svamp", "range 5-3"), "3");
  EXPECT_EQ(legacy("svamp", "3/4"), "4");
  EXPECT_TRUE(is_correct(set("svamp"), strict("svamp", "3/4"), "0.75"));
  EXPECT_EQ(legacy("svamp", "7."), "7.");
  EXPECT_TRUE(is_correct(set("svamp"), legacy("svamp", "7."), "7.0"));
  EXPECT_EQ(strict("svamp", "7."), "7");
}

TEST(Extraction, OfChoices) {
  EXPECT_EQ(legacy("boolq", "True"), std::nullopt) << "case counts";
  EXPECT_EQ(strict("boolq", "True."), "true");
  EXPECT_EQ(legacy("arc_e", "answer10"), "answer1");
  EXPECT_EQ(strict("arc_e", "answer10"), std::nullopt);
  EXPECT_EQ(legacy("boolq", "is it true or false? false"), "true") << "the first";
  EXPECT_EQ(strict("boolq", "is it true or false? false"), std::nullopt) << "it says both";
  EXPECT_EQ(strict("boolq", "false, quite false"), "false");
  const char* changed = "the answer is answer1. No: the correct ANSWER IS answer2, not answer3";
  EXPECT_EQ(legacy("obqa", changed), "answer1");
  EXPECT_EQ(strict("obqa", changed), "answer2") << "first behind the last";
  EXPECT_EQ(strict("arc_c",
                   "the answer is \xC3\xA9"
                   "answer2"),
            std::nullopt)
      << "inside a word";
  EXPECT_EQ(strict("arc_e", "the answer is unknown, answer1"), "answer1");
  EXPECT_EQ(strict("arc_e", "answer1: the answer is"), std::nullopt) << "cut off";
}

TEST(Extraction, OfNumbers) {
  EXPECT_EQ(strict("gsm8k", "The answer is $1,234.50, or 5 each."), "1234.50");
  EXPECT_EQ(legacy("gsm8k", "The answer is $1,234.50, or 5 each."), "5");
  EXPECT_EQ(strict("gsm8k", "x2 = 7"), "7") << "a name is no number";
  EXPECT_EQ(strict("gsm8k", "x2"), std::nullopt);
  EXPECT_EQ(strict("gsm8k", "The answer is -3"), "-3");
  EXPECT_EQ(strict("gsm8k", "(-3)"), "-3");
  EXPECT_EQ(strict("gsm8k", "10 - 3"), "3");
  EXPECT_EQ(strict("gsm8k", "The answer is .5"), ".5");
  EXPECT_EQ(strict("gsm8k", "The answer is 1, 2 and 3"), "1");
  EXPECT_EQ(strict("gsm8k", "1,23"), "23") << "not a thousands' comma";
  EXPECT_EQ(legacy("gsm8k", "1,23"), "123");
  EXPECT_TRUE(is_correct(set("gsm8k"), strict("gsm8k", "1000001/2"), "500000.5"));
  EXPECT_EQ(strict("gsm8k", "The answer is 1/0"), "1") << "no fraction";
}

TEST(Extraction, OfLetters) {
  EXPECT_EQ(legacy("aqua", "Because"), "B");
  EXPECT_EQ(strict("aqua", "Because"), std::nullopt);
  EXPECT_EQ(strict("aqua", "A train of 5 C"), std::nullopt) << "which one?";
  EXPECT_EQ(strict("aqua", "A or B? The answer is (D)."), "D");
  EXPECT_EQ(strict("aqua", "the answer is c"), std::nullopt);
}

TEST(Labels, ReadAsTheirFilesWriteThem) {
  EXPECT_EQ(label_of(set("svamp"), "576.0"), "576.0");
  EXPECT_EQ(label_of(set("gsm8k"), "2+2 = <<2+2=4>>4\n#### 1,004"), "1004");
  EXPECT_EQ(label_of(set("aqua"), "E"), "E");
  EXPECT_EQ(label_of(set("boolq"), "true"), "true");
  const auto refused = [](const char* name, const char* label, const char* expected) {
    testing::expect_error(
        ErrorKind::data, [&] { label_of(set(name), label); }, label, expected);
  };
  refused("svamp", "many", "number");
  refused("svamp", "inf", "number");
  refused("aqua", "F", "A, B, C, D, E");
  refused("boolq", "answer1", "true, false");
}

TEST(Labels, EqualNumbersWithinAThousandth) {
  EXPECT_TRUE(is_correct(set("mawps"), "1.8333", "1.8333333333333335"));
  EXPECT_FALSE(is_correct(set("mawps"), "1.83", "1.8333333333333335"));
  EXPECT_TRUE(is_correct(set("mawps"), "18", "18.0"));
  EXPECT_FALSE(is_correct(set("mawps"), std::nullopt, "18.0"));
  EXPECT_FALSE(is_correct(set("boolq"), "true", "false"));
}

}  // namespace
}  // namespace fathom::eval
