#pragma once

#include <optional>
#include <span>
#include <string>

namespace fathom::eval {

/// A question of a conversation and what an assistant answered.
struct Exchange {
  std::string question, answer;
  std::optional<std::string> reference;  ///< an answer that is known to be good
};

/// What a language model as a judge is told and asked: a system and a user message.
struct JudgePrompt {
  std::string system, user;
};

/// Asks for a mark from 1 to 10 for the last answer of a conversation of one or more exchanges, to
/// be given as "[[mark]]" in the last line.
JudgePrompt judge_one(std::span<const Exchange> conversation);

/// Asks which of two last answers is better, to be given as "[[A]]", "[[B]]" or "[[C]]" (neither)
/// in the last line; both conversations have the same questions and references. Judges favour a
/// place, so each pair is to be asked in both orders.
JudgePrompt judge_pair(std::span<const Exchange> a, std::span<const Exchange> b);

}  // namespace fathom::eval
