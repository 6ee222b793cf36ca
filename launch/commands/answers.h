#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data_tools/text/question_prompts.h"
#include "launch/commands/source.h"
#include "launch/options/evaluate.h"

namespace fathom::launch {

/// An answer of another model, to the same question.
struct RivalAnswer {
  std::string model, text;
};

/// The questions of `fathom evaluate` as the model is to answer them, known before memory is taken.
struct AnswerPlan {
  options::AnswerOptions options;
  std::int64_t batch = 1;
  std::string model;  ///< its name in what is written
  std::shared_ptr<const data::Tokenizer> tokenizer;
  data_tools::QuestionPrompts prompts;
  std::vector<std::int32_t> stop_ids;
  std::vector<RivalAnswer> rivals;  ///< of each question; empty without --judge-against
};

/// Reads and encodes the questions, and what the judge shall compare with. `context` is the most
/// tokens of prompt and answer. Throws Error(usage), Error(config), Error(io), and Error(data)
/// naming file, line or question.
AnswerPlan plan_answers(const options::EvaluateRequest& request, const SourcePlan& source,
                        std::int64_t context);

/// Lets the model answer every question once for each seed. Rank 0 scores the answers, writes the
/// files that the options name, and gets the summary; other ranks get null. Collective over the
/// engine's grid.
nlohmann::json answer_questions(train::Engine& engine, const AnswerPlan& plan);

}  // namespace fathom::launch
