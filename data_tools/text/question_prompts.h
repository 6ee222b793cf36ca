#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/overlong.h"
#include "data/tokenizers/tokenizer.h"
#include "data_tools/text/question.h"

namespace fathom::data_tools {

struct PromptRules {
  /// A template of prompt_template.h, or "as-is": each record's own prompt, in which special tokens
  /// are recognised, with the tokenizer's prefix ids in front.
  std::string template_name = "auto";
  std::optional<std::string> system = {};  ///< instead of the template's default system message
  std::int64_t longest = 0;                ///< tokens of a prompt
  std::int64_t answer = 0;  ///< most tokens of an answer, which later turns have in front
  data::Overlong overlong = data::Overlong::refuse;  ///< truncate cuts the prompt's end
};

class PromptTemplate;

/// Questions and the ids that a model continues to answer them.
struct QuestionPrompts {
  std::vector<Question> questions;
  std::vector<std::vector<std::int32_t>> ids;  ///< of each question
  /// What ends an answer besides the model's own end tokens: the template's end of a message and
  /// the tokenizer's end of text.
  std::vector<std::int32_t> end_ids;
  std::string template_name;                   ///< never "auto"
  std::shared_ptr<const PromptTemplate> form;  ///< null under "as-is"; refers to the tokenizer
  std::int64_t skipped = 0;                    ///< questions left out: longer than the rules allow
  std::int64_t truncated = 0;
};

/// Throws Error(config) for a template that is unknown or does not fit the tokenizer, and
/// Error(data) naming the question for one that the template cannot hold, that has no prompt of its
/// own under "as-is", or is too long under `refuse`; also where nothing is left. A conversation of
/// several turns is too long if its last prompt could be, and is never cut. The tokenizer must
/// outlive the result.
QuestionPrompts encode_questions(std::vector<Question> questions, const PromptRules& rules,
                                 const data::Tokenizer& tokenizer);

/// The ids of a later turn: the conversation so far, with one answer to each turn before it, and
/// what is asked next.
std::vector<std::int32_t> encode_turn(const PromptTemplate& form, const Question& question,
                                      std::span<const std::string> answers);

}  // namespace fathom::data_tools
