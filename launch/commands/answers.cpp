#include "launch/commands/answers.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/log.h"
#include "core/timer.h"
#include "eval/answers.h"
#include "generate/replicas.h"
#include "launch/commands/answer_files.h"
#include "launch/commands/answer_summary.h"

namespace fathom::launch {
namespace {

using nlohmann::json;

std::vector<data_tools::Question> read_chosen(const options::AnswerOptions& options,
                                              std::optional<TaskPlan>& task) {
  auto questions = data_tools::read_questions(options.prompts);
  const auto most = static_cast<std::size_t>(options.questions);
  if (!options.tasks.empty()) {
    task.emplace(TaskPlan{.names = options.tasks});
    return choose_questions(std::move(questions), options.prompts, most, *task);
  }
  if (most > 0 && questions.size() > most) questions.resize(most);
  if (!options.rouge) return questions;
  for (const auto& question : questions) {
    require(!question.references.empty(), ErrorKind::data, options.prompts, ": question '",
            question.id,
            "' has no reference (field output, response, answer or completion); --rouge=false "
            "goes on without scores");
    require(question.later.empty(), ErrorKind::data, options.prompts, ": question '", question.id,
            "' has several turns, which ROUGE-L does not score; --rouge=false goes on without");
  }
  return questions;
}

std::int64_t longest_prompt(const options::AnswerOptions& options, std::int64_t context) {
  const std::int64_t room = context - options.sampling.max_new;
  require(room >= 1, ErrorKind::config, "--max-new ", options.sampling.max_new,
          " leaves no room for a prompt in a context of ", context, " positions");
  require(options.max_prompt <= room, ErrorKind::config, "--max-prompt ", options.max_prompt,
          " and --max-new ", options.sampling.max_new, " do not fit into a context of ", context,
          " positions");
  return options.max_prompt > 0 ? options.max_prompt : room;
}

Answer answer_of(const generate::Continuation& continuation, const data::Tokenizer& tokenizer) {
  const bool ended = continuation.reason == generate::StopReason::stop_id;
  std::span<const std::int32_t> said(continuation.ids);
  if (ended) said = said.first(said.size() - 1);
  return {.text = eval::answer_text(tokenizer.decode(said, true)),
          .tokens = static_cast<std::int64_t>(continuation.ids.size()),
          .ended = ended};
}

// Answers to all questions, turn by turn: a later one has the answers before it in its prompt.
// Collective.
SeedAnswers ask(train::Engine& engine, const AnswerPlan& plan, int seed) {
  generate::Generator generator(engine.student(), engine.grid(),
                                {.sampling = plan.options.sampling.with_seed(seed),
                                 .vocab = plan.tokenizer->vocab_size(),
                                 .max_new = plan.options.sampling.max_new,
                                 .stop_ids = plan.stop_ids,
                                 .batch = plan.batch,
                                 .stoppable = true,
                                 .vote = engine.vote(),
                                 .exit = plan.options.exit});
  const auto& questions = plan.prompts.questions;
  SeedAnswers result{.seed = seed};
  result.answers.resize(questions.size());
  for (std::size_t turn = 0;; ++turn) {
    std::vector<std::size_t> asked;
    std::vector<generate::Prompt> prompts;
    for (std::size_t i = 0; i < questions.size(); ++i) {
      if (turn > questions[i].later.size()) continue;
      asked.push_back(i);
      prompts.push_back({prompt_ids(plan, i, result.answers[i]), turn * questions.size() + i});
    }
    if (prompts.empty()) break;
    const auto said = generate::generate_over_replicas(generator, engine.grid(), prompts);
    for (std::size_t p = 0; p < asked.size(); ++p)
      result.answers[asked[p]].push_back(answer_of(said[p], *plan.tokenizer));
  }
  result.exits = generator.exit_counts();
  if (plan.options.exit.early()) result.exits.sum_over(engine.grid().dp());
  return result;
}

void score(const AnswerPlan& plan, SeedAnswers& seed) {
  const auto& questions = plan.prompts.questions;
  std::vector<std::string> texts;
  std::vector<std::vector<std::string>> references;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    Answer& answer = seed.answers[i].front();
    texts.push_back(answer.text);
    references.push_back(questions[i].references);
    if (plan.task) answer.grades = grade(questions[i], answer.text);
  }
  if (!plan.options.rouge) return;
  const std::vector<double> scores = eval::score_answers(texts, references);
  for (std::size_t i = 0; i < scores.size(); ++i) seed.answers[i].front().rouge_l = scores[i];
}

}  // namespace

AnswerPlan plan_answers(const options::EvaluateRequest& request, const SourcePlan& source,
                        std::int64_t context) {
  const options::AnswerOptions& options = request.answer;
  AnswerPlan plan;
  plan.options = options;
  plan.batch = request.batch;
  plan.model = options.name.empty() ? source.source.model + source.source.checkpoint : options.name;
  plan.tokenizer = data::Tokenizer::load(source.tokenizer);
  require(plan.tokenizer->vocab_size() <= source.plan.student.vocab, ErrorKind::data,
          source.tokenizer.string(), ": ", plan.tokenizer->vocab_size(), " ids for a model of ",
          source.plan.student.vocab);
  data_tools::PromptRules rules{.template_name = options.prompt_template,
                                .longest = longest_prompt(options, context),
                                .answer = options.sampling.max_new,
                                .overlong = request.overlong};
  if (!options.system.empty()) rules.system = options.system;
  plan.prompts =
      data_tools::encode_questions(read_chosen(options, plan.task), rules, *plan.tokenizer);
  if (plan.task) check_left(*plan.task, plan.prompts.questions);
  plan.stop_ids = source.plan.student.eos_ids;
  plan.stop_ids.insert(plan.stop_ids.end(), plan.prompts.end_ids.begin(),
                       plan.prompts.end_ids.end());
  if (!options.judge_against.empty())
    plan.rivals = read_rivals(options.judge_against, plan.prompts.questions);
  return plan;
}

std::vector<std::int32_t> prompt_ids(const AnswerPlan& plan, std::size_t question,
                                     const std::vector<Answer>& before) {
  if (before.empty()) return plan.prompts.ids[question];
  std::vector<std::string> said;
  for (const Answer& answer : before) said.push_back(answer.text);
  return data_tools::encode_turn(*plan.prompts.form, plan.prompts.questions[question], said);
}

json answer_questions(train::Engine& engine, const AnswerPlan& plan) {
  const bool first = engine.grid().world().rank() == 0;
  if (plan.prompts.skipped + plan.prompts.truncated > 0)
    log_info(plan.options.prompts, ": ", plan.prompts.skipped, " questions left out and ",
             plan.prompts.truncated, " cut, their prompts being too long");
  if (plan.task)
    for (const std::string& set : plan.task->missing)
      log_warn(plan.options.prompts, ": no question of ", set, "; the mean is over the other sets");
  std::vector<SeedAnswers> all;
  json summaries = json::array();
  for (const int seed : plan.options.seeds) {
    const Timer timer;
    SeedAnswers answers = ask(engine, plan, seed);
    if (!first) continue;
    score(plan, answers);
    summaries.push_back(summarise_seed(plan, answers, timer.seconds()));
    if (answers.exits.total() > 0)
      summaries.back()["exits"] = summarise_exits(answers.exits, engine.student().spec());
    all.push_back(std::move(answers));
  }
  if (!first) return {};
  write_answer_files(plan, all);
  return summarise(plan, std::move(summaries));
}

}  // namespace fathom::launch
