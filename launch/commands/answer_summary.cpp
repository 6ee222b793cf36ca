#include "launch/commands/answer_summary.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/log.h"
#include "eval/answers.h"

namespace fathom::launch {
namespace {

using nlohmann::json;

json summary_of(const AnswerPlan& plan, const SeedAnswers& seed) {
  double tokens = 0, rouge = 0;
  std::int64_t answers = 0, empty = 0, unfinished = 0;
  for (const std::vector<Answer>& turns : seed.answers) {
    rouge += turns.front().rouge_l.value_or(0);
    for (const Answer& answer : turns) {
      ++answers;
      tokens += static_cast<double>(answer.tokens);
      empty += answer.text.empty();
      unfinished += !answer.ended;
    }
  }
  json summary = {{"seed", seed.seed},
                  {"tokens", tokens / static_cast<double>(answers)},
                  {"empty", empty},
                  {"unfinished", unfinished}};
  if (plan.options.rouge) summary["rouge_l"] = rouge / static_cast<double>(seed.answers.size());
  if (!plan.task) return summary;
  std::vector<eval::Grades> grades;
  for (const auto& turns : seed.answers) grades.push_back(turns.front().grades.value());
  summary.update(task_summary(*plan.task, plan.prompts.questions, grades));
  return summary;
}

void log_seed(const json& summary, double seconds) {
  std::string score;
  if (summary.contains("accuracy"))
    score = str("accuracy ", summary["accuracy"]["legacy"].get<double>(), " % legacy, ",
                summary["accuracy"]["strict"].get<double>(), " % strict, ");
  if (summary.contains("rouge_l")) score += str("ROUGE-L ", summary["rouge_l"].get<double>(), ", ");
  log_info("seed ", summary["seed"].get<int>(), ": ", score, summary["tokens"].get<double>(),
           " tokens an answer, ", summary["empty"].get<std::int64_t>(), " empty, ",
           summary["unfinished"].get<std::int64_t>(), " cut off by --max-new, ", seconds, " s");
}

// Mean and deviation of one number of all seeds.
json over_seeds(const std::string& what, const json& seeds, const json::json_pointer& number) {
  std::vector<double> values;
  for (const json& seed : seeds) values.push_back(seed.at(number));
  const eval::Spread spread = eval::spread_of(values);
  log_info(what, " ", spread.mean,
           spread.sd ? str(" +- ", *spread.sd, " (sd of ", values.size(), " seeds)") : "");
  return {{"mean", spread.mean}, {"sd", spread.sd ? json(*spread.sd) : json()}};
}

}  // namespace

json summarise_seed(const AnswerPlan& plan, const SeedAnswers& seed, double seconds) {
  json summary = summary_of(plan, seed);
  log_seed(summary, seconds);
  return summary;
}

json summarise_exits(const generate::ExitCounts& exits, const model::ModelSpec& spec) {
  log_info("exits: ", exits.text(spec));
  return {{"layers", exits.average_depth(spec)},
          {"tokens", exits.tokens},
          {"fastest", exits.bound(spec)}};
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
  if (plan.task)
    summary.update({{"task", plan.task->names},
                    {"left_out", plan.task->left_out},
                    {"sets_missing", plan.task->missing}});
  using Pointer = json::json_pointer;
  if (seeds[0].contains("rouge_l"))
    summary["rouge_l"] = over_seeds("ROUGE-L", seeds, Pointer("/rouge_l"));
  if (plan.task)
    for (const std::string extractor : {"legacy", "strict"})
      summary["accuracy"][extractor] =
          over_seeds("accuracy in percent, " + extractor, seeds, Pointer("/accuracy/" + extractor));
  summary["seeds"] = std::move(seeds);
  return summary;
}

}  // namespace fathom::launch
