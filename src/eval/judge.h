#pragma once

#include <optional>
#include <string>

namespace fathom::eval {

/// What a language model as a judge is told and asked: a system and a user message.
struct JudgePrompt {
  std::string system, user;
};

/// Asks for a mark from 1 to 10 for one answer, to be given as "[[mark]]" in the last line. The
/// reference, if there is one, is shown as an answer that is known to be good.
JudgePrompt judge_one(const std::string& question, const std::string& answer,
                      const std::optional<std::string>& reference);

/// Asks which of two answers is better, to be given as "[[A]]", "[[B]]" or "[[C]]" (neither) in the
/// last line. Judges favour a place, so each pair is to be asked in both orders.
JudgePrompt judge_pair(const std::string& question, const std::string& answer_a,
                       const std::string& answer_b, const std::optional<std::string>& reference);

}  // namespace fathom::eval
