#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "eval/answer_sets.h"

namespace fathom::eval {

/// How the answer is found in what a model wrote.
enum class Extractor {
  /// As the published evaluation of commonsense_170k and math_10k does, for comparisons with it.
  /// Choices: the first of the words, wherever it stands ("untrue" is "true"). Numbers: commas are
  /// removed, the last -?digits[.digits] counts ("5-3" is -3, "3/4" is 4). Letters: the first
  /// capital A to E, also inside a word ("The Answer is C" is A).
  legacy,
  /// As a reader would: what stands first behind the last "answer is" (any case), as a word of its
  /// own. Choices in any case. Numbers with thousands' commas, a minus that no digit or letter
  /// precedes, fractions ("3/4" is 0.75). Without "answer is" a choice or a letter must be the only
  /// one of its kind in the text, and of numbers the last counts.
  strict,
};

/// What the extractor finds: the word, the number as text, or the letter; nothing if there is none.
std::optional<std::string> extract(const AnswerSet& set, Extractor extractor,
                                   std::string_view answer);

/// The label of a question as extract() would give it: the published files' "576.0", or GSM8K's
/// own worked answer that ends with "#### 576". Throws Error(data) for what is not an answer of the
/// set's form.
std::string label_of(const AnswerSet& set, std::string_view answer);

/// Numbers are equal within 0.001, words and letters if they are the same; nothing is wrong.
bool is_correct(const AnswerSet& set, const std::optional<std::string>& found,
                std::string_view label);

}  // namespace fathom::eval
