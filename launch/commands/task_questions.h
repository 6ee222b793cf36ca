#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data_tools/text/question.h"
#include "eval/accuracy.h"

/// Questions with one right answer (`fathom evaluate --task`): which are asked, and what the
/// answers score.
namespace fathom::launch {

/// What --task asks for, and what the file has of it.
struct TaskPlan {
  std::vector<std::string> names = {};    ///< as given
  std::vector<std::string> missing = {};  ///< sets of a group that the file has no question of
  std::int64_t left_out = 0;              ///< questions of other sets
  std::vector<const eval::AnswerSet*> sets = {};  ///< that are asked
};

/// Keeps the questions of the sets that plan.names means, of each set the first `most` (0: all),
/// and completes the plan. A question without a task is of the one set that is asked for. From then
/// on question.task is the set's name, its label is normalised and its only reference. Throws
/// Error(config) for names that are not known, and Error(data) naming `file` and the question for
/// one without a task or label, or with a label that its set does not know; also where a set that
/// was asked for by its own name, or every set, has no question.
std::vector<data_tools::Question> choose_questions(std::vector<data_tools::Question> questions,
                                                   const std::string& file, std::size_t most,
                                                   TaskPlan& plan);

/// Throws Error(data) for a set that has lost all its questions since.
void check_left(const TaskPlan& plan, const std::vector<data_tools::Question>& questions);

/// The grades of an answer to a question that choose_questions() kept.
eval::Grades grade(const data_tools::Question& question, const std::string& answer);

/// {"found", "correct"} by extractor.
nlohmann::json to_json(const eval::Grades& grades);

/// Accuracy in percent and counts of each set, by extractor, and their plain mean:
/// {"accuracy": {"legacy", "strict"}, "sets": {"boolq": {"questions", "accuracy", "correct",
/// "no_match"}}}.
nlohmann::json task_summary(const TaskPlan& plan,
                            const std::vector<data_tools::Question>& questions,
                            const std::vector<eval::Grades>& grades);

}  // namespace fathom::launch
