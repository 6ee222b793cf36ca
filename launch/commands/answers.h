#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data_tools/text/question_prompts.h"
#include "generate/exit_counts.h"
#include "launch/commands/source.h"
#include "launch/commands/task_questions.h"
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
  std::optional<TaskPlan> task;  ///< with --task
  /// Of each question, one a turn; empty without --judge-against.
  std::vector<std::vector<RivalAnswer>> rivals;
};

struct Answer {
  std::string text;
  std::int64_t tokens = 0;                            ///< the end token included
  bool ended = false;                                 ///< by the model, not by --max-new
  std::optional<double> rouge_l = std::nullopt;       ///< percent; of first turns
  std::optional<eval::Grades> grades = std::nullopt;  ///< with --task; of first turns
};

/// The answers that one seed gave: of each question, one a turn.
struct SeedAnswers {
  int seed = 0;
  std::vector<std::vector<Answer>> answers = {};
  generate::ExitCounts exits = generate::ExitCounts();  ///< of all replicas
};

/// Reads and encodes the questions, and what the judge shall compare with. `context` is the most
/// tokens of prompt and answer. Throws Error(usage), Error(config), Error(io), and Error(data)
/// naming file, line or question.
AnswerPlan plan_answers(const options::EvaluateRequest& request, const SourcePlan& source,
                        std::int64_t context);

/// What the model continues to answer a question's next turn, given the answers before it.
std::vector<std::int32_t> prompt_ids(const AnswerPlan& plan, std::size_t question,
                                     const std::vector<Answer>& before);

/// Lets the model answer every question once for each seed. Rank 0 scores the answers, writes the
/// files that the options name, and gets the summary; other ranks get null. Collective over the
/// engine's grid.
nlohmann::json answer_questions(train::Engine& engine, const AnswerPlan& plan);

}  // namespace fathom::launch
