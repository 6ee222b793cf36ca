#include "launch/commands/task_questions.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "eval/extraction.h"

namespace fathom::launch {
namespace {

using data_tools::Question;
using eval::AnswerSet;
using nlohmann::json;

// nullptr for a question of another set.
const AnswerSet* set_of(const Question& question, const std::vector<const AnswerSet*>& asked) {
  if (question.task.empty()) {
    require(asked.size() == 1, ErrorKind::data,
            "no field 'task', which says of which set it is; without it ask for a single set");
    return asked.front();
  }
  const AnswerSet* set = eval::find_answer_set(question.task);
  return std::ranges::find(asked, set) == asked.end() ? nullptr : set;
}

void check_sets(const std::vector<const AnswerSet*>& asked, const std::string& file,
                TaskPlan& plan) {
  for (const AnswerSet* set : asked) {
    if (std::ranges::find(plan.sets, set) != plan.sets.end()) continue;
    const bool by_name = std::ranges::any_of(plan.names, [&](const std::string& name) {
      return name == set->name || name == set->published;
    });
    require(!by_name, ErrorKind::data, file, ": no question of the task ", set->name, " (",
            plan.left_out, " of other sets); a record's field 'task' names its set");
    plan.missing.emplace_back(set->name);
  }
  require(!plan.sets.empty(), ErrorKind::data, file, ": no question of the task ",
          plan.names.front(), " (", plan.left_out,
          " of other sets); a record's field 'task' names its set");
}

}  // namespace

std::vector<Question> choose_questions(std::vector<Question> questions, const std::string& file,
                                       std::size_t most, TaskPlan& plan) {
  const std::vector<const AnswerSet*> asked = eval::choose_answer_sets(plan.names);
  std::vector<Question> chosen;
  std::map<const AnswerSet*, std::size_t> counts;
  for (Question& question : questions) {
    try {
      const AnswerSet* set = set_of(question, asked);
      plan.left_out += set == nullptr;
      if (set == nullptr || (most > 0 && counts[set] == most)) continue;
      ++counts[set];
      require(!question.label.empty(), ErrorKind::data, "no field 'answer' with the right answer");
      question.task = set->name;
      question.label = eval::label_of(*set, question.label);
      question.references = {question.label};
    } catch (const Error& error) {
      fail(error.kind(), file, ": question '", question.id, "': ", error.what());
    }
    chosen.push_back(std::move(question));
  }
  for (const AnswerSet* set : asked)
    if (counts.contains(set)) plan.sets.push_back(set);
  check_sets(asked, file, plan);
  return chosen;
}

void check_left(const TaskPlan& plan, const std::vector<Question>& questions) {
  for (const AnswerSet* set : plan.sets)
    require(std::ranges::any_of(questions, [&](const auto& q) { return q.task == set->name; }),
            ErrorKind::data, "all questions of ", set->name,
            " were left out, their prompts being too long; raise --context or --max-prompt");
}

eval::Grades grade(const Question& question, const std::string& answer) {
  const AnswerSet* set = eval::find_answer_set(question.task);
  FATHOM_CHECK(set != nullptr, "question ", question.id, " of task '", question.task, "'");
  return eval::grade(*set, answer, question.label);
}

json to_json(const eval::Grades& grades) {
  const auto one = [](const eval::Grade& grade) {
    return json{{"found", grade.found ? json(*grade.found) : json()}, {"correct", grade.correct}};
  };
  return {{"legacy", one(grades.legacy)}, {"strict", one(grades.strict)}};
}

json task_summary(const TaskPlan& plan, const std::vector<Question>& questions,
                  const std::vector<eval::Grades>& grades) {
  std::map<std::string, eval::SetScore> scores;
  for (std::size_t i = 0; i < questions.size(); ++i) scores[questions[i].task].add(grades[i]);
  const auto both = [](const eval::Accuracy& of) {
    return json{{"legacy", of.legacy}, {"strict", of.strict}};
  };
  json sets = json::object();
  std::vector<eval::SetScore> in_order;
  for (const AnswerSet* set : plan.sets) {
    const std::string name(set->name);
    const eval::SetScore& score = scores[name];
    in_order.push_back(score);
    sets[name] = {
        {"questions", score.questions},
        {"accuracy", both(score.accuracy())},
        {"correct", {{"legacy", score.legacy.correct}, {"strict", score.strict.correct}}},
        {"no_match", {{"legacy", score.legacy.no_match}, {"strict", score.strict.no_match}}}};
  }
  return {{"accuracy", both(eval::mean_accuracy(in_order))}, {"sets", std::move(sets)}};
}

}  // namespace fathom::launch
