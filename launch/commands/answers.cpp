#include "launch/commands/answers.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/log.h"
#include "core/timer.h"
#include "eval/answers.h"
#include "generate/replicas.h"
#include "launch/commands/answer_files.h"

namespace fathom::launch {
namespace {

using nlohmann::json;

std::vector<data_tools::Question> read_chosen(const options::AnswerOptions& options) {
  auto questions = data_tools::read_questions(options.prompts);
  const auto most = static_cast<std::size_t>(options.questions);
  if (most > 0 && questions.size() > most) questions.resize(most);
  if (!options.rouge) return questions;
  for (const auto& question : questions)
    require(!question.references.empty(), ErrorKind::data, options.prompts, ": question '",
            question.id,
            "' has no reference (field output, response, answer or completion); --rouge=false "
            "goes on without scores");
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

// What one seed gave.
SeedAnswers collect(const AnswerPlan& plan, int seed,
                    const std::vector<generate::Continuation>& continuations) {
  SeedAnswers result{.seed = seed};
  std::vector<std::vector<std::string>> references;
  for (const auto& question : plan.prompts.questions) references.push_back(question.references);
  std::vector<std::string> texts;
  for (const generate::Continuation& continuation : continuations) {
    result.answers.push_back(answer_of(continuation, *plan.tokenizer));
    texts.push_back(result.answers.back().text);
  }
  if (!plan.options.rouge) return result;
  const std::vector<double> scores = eval::score_answers(texts, references);
  for (std::size_t i = 0; i < scores.size(); ++i) result.answers[i].rouge_l = scores[i];
  return result;
}

json summary_of(const SeedAnswers& seed) {
  double tokens = 0, rouge = 0;
  std::int64_t empty = 0, unfinished = 0;
  for (const Answer& answer : seed.answers) {
    tokens += static_cast<double>(answer.tokens);
    rouge += answer.rouge_l.value_or(0);
    empty += answer.text.empty();
    unfinished += !answer.ended;
  }
  const auto count = static_cast<double>(seed.answers.size());
  json summary = {{"seed", seed.seed},
                  {"tokens", tokens / count},
                  {"empty", empty},
                  {"unfinished", unfinished}};
  if (seed.answers.front().rouge_l) summary["rouge_l"] = rouge / count;
  return summary;
}

void log_seed(const json& summary, double seconds) {
  const std::string score =
      summary.contains("rouge_l") ? str("ROUGE-L ", summary["rouge_l"].get<double>(), ", ") : "";
  log_info("seed ", summary["seed"].get<int>(), ": ", score, summary["tokens"].get<double>(),
           " tokens an answer, ", summary["empty"].get<std::int64_t>(), " empty, ",
           summary["unfinished"].get<std::int64_t>(), " cut off by --max-new, ", seconds, " s");
}

json summarise(const AnswerPlan& plan, json seeds) {
  const options::AnswerOptions& options = plan.options;
  json summary = {{"prompts", options.prompts},
                  {"template", plan.prompts.template_name},
                  {"questions", plan.prompts.questions.size()},
                  {"skipped", plan.prompts.skipped},
                  {"truncated", plan.prompts.truncated},
                  {"max_new", options.sampling.max_new},
                  {"temperature", options.sampling.temperature},
                  {"top_k", options.sampling.top_k},
                  {"top_p", options.sampling.top_p},
                  {"no_repeat_ngram", options.sampling.no_repeat_ngram}};
  std::vector<double> scores;
  for (const json& seed : seeds)
    if (seed.contains("rouge_l")) scores.push_back(seed["rouge_l"]);
  summary["seeds"] = std::move(seeds);
  if (scores.empty()) return summary;
  const eval::Spread spread = eval::spread_of(scores);
  summary["rouge_l"] = {{"mean", spread.mean}, {"sd", spread.sd ? json(*spread.sd) : json()}};
  log_info("ROUGE-L ", spread.mean,
           spread.sd ? str(" +- ", *spread.sd, " (sd of ", scores.size(), " seeds)") : "", ", ",
           plan.prompts.questions.size(), " questions");
  return summary;
}

}  // namespace

AnswerPlan plan_answers(const options::EvaluateRequest& request, const SourcePlan& source,
                        std::int64_t context) {
  const options::AnswerOptions& options = request.answer;
  AnswerPlan plan;
  plan.options = options;
  plan.batch = request.batch;
  plan.model = options.name.empty() ? source.source.model + source.source.checkpoint : options.name;
  check_folders(options);
  plan.tokenizer = data::Tokenizer::load(source.tokenizer);
  require(plan.tokenizer->vocab_size() <= source.plan.student.vocab, ErrorKind::data,
          source.tokenizer.string(), ": ", plan.tokenizer->vocab_size(), " ids for a model of ",
          source.plan.student.vocab);
  data_tools::PromptRules rules{.template_name = options.prompt_template,
                                .longest = longest_prompt(options, context),
                                .overlong = request.overlong};
  if (!options.system.empty()) rules.system = options.system;
  plan.prompts = data_tools::encode_questions(read_chosen(options), rules, *plan.tokenizer);
  plan.stop_ids = source.plan.student.eos_ids;
  plan.stop_ids.insert(plan.stop_ids.end(), plan.prompts.end_ids.begin(),
                       plan.prompts.end_ids.end());
  if (!options.judge_against.empty())
    plan.rivals = read_rivals(options.judge_against, plan.prompts.questions);
  return plan;
}

json answer_questions(train::Engine& engine, const AnswerPlan& plan) {
  const bool first = engine.grid().world().rank() == 0;
  std::vector<generate::Prompt> prompts;
  for (const auto& ids : plan.prompts.ids) prompts.push_back({ids, prompts.size()});
  if (plan.prompts.skipped + plan.prompts.truncated > 0)
    log_info(plan.options.prompts, ": ", plan.prompts.skipped, " questions left out and ",
             plan.prompts.truncated, " cut, their prompts being too long");
  std::vector<SeedAnswers> all;
  json summaries = json::array();
  for (const int seed : plan.options.seeds) {
    const Timer timer;
    generate::Generator generator(engine.student(), engine.grid(),
                                  {.sampling = plan.options.sampling.with_seed(seed),
                                   .max_new = plan.options.sampling.max_new,
                                   .stop_ids = plan.stop_ids,
                                   .batch = plan.batch,
                                   .vote = engine.vote()});
    const auto continuations = generate::generate_over_replicas(generator, engine.grid(), prompts);
    if (!first) continue;
    all.push_back(collect(plan, seed, continuations));
    summaries.push_back(summary_of(all.back()));
    log_seed(summaries.back(), timer.seconds());
  }
  if (!first) return {};
  write_answer_files(plan, all);
  return summarise(plan, std::move(summaries));
}

}  // namespace fathom::launch
