#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::eval {

/// What an answer to a question of a set looks like.
enum class AnswerForm {
  choice,  ///< one of a few words, such as "true" or "answer3"
  number,
  letter,  ///< of an option, A to E
};

/// A set of questions with one right answer each.
struct AnswerSet {
  std::string_view name;       ///< "arc_e"
  std::string_view published;  ///< what data files call it: "ARC-Easy"
  std::string_view group;      ///< "commonsense" or "arithmetic"
  AnswerForm form;
  std::span<const std::string_view> choices;  ///< of AnswerForm::choice
};

/// The eight commonsense sets, then the four arithmetic ones.
std::span<const AnswerSet> answer_sets();

/// The set of that name, ours or the published one; nullptr if there is none.
const AnswerSet* find_answer_set(std::string_view name);

/// The sets behind names of sets and groups, each once, in the order of answer_sets(). Throws
/// Error(config) listing the names for an unknown one.
std::vector<const AnswerSet*> choose_answer_sets(std::span<const std::string> names);

}  // namespace fathom::eval
