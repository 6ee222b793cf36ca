#include "eval/answer_sets.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace fathom::eval {
namespace {

using Words = std::string_view;
constexpr std::array<Words, 2> kTruth = {"true", "false"};
constexpr std::array<Words, 2> kSolutions = {"solution1", "solution2"};
constexpr std::array<Words, 5> kAnswers = {"answer1", "answer2", "answer3", "answer4", "answer5"};
constexpr std::array<Words, 4> kEndings = {"ending1", "ending2", "ending3", "ending4"};
constexpr std::array<Words, 2> kOptions = {"option1", "option2"};

constexpr std::string_view kCommonsense = "commonsense", kArithmetic = "arithmetic";

constexpr std::array<AnswerSet, 12> kSets = {{
    {"boolq", "boolq", kCommonsense, AnswerForm::choice, kTruth},
    {"piqa", "piqa", kCommonsense, AnswerForm::choice, kSolutions},
    {"siqa", "social_i_qa", kCommonsense, AnswerForm::choice, kAnswers},
    {"hellaswag", "hellaswag", kCommonsense, AnswerForm::choice, kEndings},
    {"winogrande", "winogrande", kCommonsense, AnswerForm::choice, kOptions},
    {"arc_e", "ARC-Easy", kCommonsense, AnswerForm::choice, kAnswers},
    {"arc_c", "ARC-Challenge", kCommonsense, AnswerForm::choice, kAnswers},
    {"obqa", "openbookqa", kCommonsense, AnswerForm::choice, kAnswers},
    {"gsm8k", "gsm8k", kArithmetic, AnswerForm::number, {}},
    {"mawps", "mawps", kArithmetic, AnswerForm::number, {}},
    {"svamp", "SVAMP", kArithmetic, AnswerForm::number, {}},
    {"aqua", "AQuA", kArithmetic, AnswerForm::letter, {}},
}};

}  // namespace

std::span<const AnswerSet> answer_sets() {
  return kSets;
}

const AnswerSet* find_answer_set(std::string_view name) {
  const auto found = std::ranges::find_if(
      kSets, [&](const AnswerSet& set) { return set.name == name || set.published == name; });
  return found == kSets.end() ? nullptr : &*found;
}

std::vector<const AnswerSet*> choose_answer_sets(std::span<const std::string> names) {
  for (const std::string& name : names) {
    if (name == kCommonsense || name == kArithmetic || find_answer_set(name) != nullptr) continue;
    std::string known = str(kCommonsense, ", ", kArithmetic);
    for (const AnswerSet& set : kSets) known += str(", ", set.name);
    fail(ErrorKind::config, "task '", name, "'; expected one or more of ", known);
  }
  std::vector<const AnswerSet*> chosen;
  for (const AnswerSet& set : kSets) {
    const auto wanted = [&](const std::string& name) {
      return name == set.name || name == set.published || name == set.group;
    };
    if (std::ranges::any_of(names, wanted)) chosen.push_back(&set);
  }
  return chosen;
}

}  // namespace fathom::eval
