#include "launch/options/evaluate.h"

#include <algorithm>
#include <set>

#include "eval/answer_sets.h"

namespace fathom::options {
namespace {

void describe_loss(OptionTable& t, EvaluateRequest& r) {
  t.section("", "Loss on a token file:");
  t.add("data", r.data, {.help = "Records to score.", .unit = "tokens.h5 file"});
  t.add("batches", r.batches,
        {.help = "Batches from the start of the file; 0 scores all.",
         .unit = "batches",
         .range = at_least(0)});
  t.add("route-scope", r.route_scope,
        {.help = "What decides together where mixture of control routes records: as the run's "
                 "moc.eval_scope says, each record for itself, or those of a batch. Answers are "
                 "always routed by their own prompts."});
  describe_any_tokenizer(t, r.any_tokenizer);
}

void describe_answers(OptionTable& t, AnswerOptions& a) {
  t.section("", "Answers to questions, and their ROUGE-L or accuracy:");
  t.add("prompts", a.prompts,
        {.help = "Questions to answer: JSON lines, or a .json file.", .unit = "file"});
  t.add("task", a.tasks,
        {.help = "Score answers by what they conclude: commonsense, arithmetic, or single sets, "
                 "such as boolq,arc_e (an unknown name lists all). Then, unless given: "
                 "--temperature=0, --seeds=10, --rouge=false, and --max-new=32, or 256 where "
                 "numbers and letters are asked for."});
  t.add("template", a.prompt_template,
        {.help = "Template around a question, as in fathom tokenize; as-is takes the record's own "
                 "prompt.",
         .unit = "name"});
  t.add("system", a.system,
        {.help = "System message instead of the chat template's own.", .unit = "text"});
  t.add("max-prompt", a.max_prompt,
        {.help = "Longest prompt; 0 takes what the context leaves beside the answer.",
         .unit = "tokens",
         .range = at_least(0)});
  t.add("questions", a.questions,
        {.help = "Questions from the start of the file, with --task of each set; 0 asks all.",
         .range = at_least(0)});
  describe_sampling(t, a.sampling);
  t.add("seeds", a.seeds,
        {.help = "Each question is answered once for each seed.", .range = at_least(0)});
  t.add("rouge", a.rouge, {.help = "Score answers; false for questions without references."});
  t.add("answers", a.answers,
        {.help = "Write every answer to this file, as JSON lines.", .unit = "file"});
  t.add("judge", a.judge,
        {.help = "Write what to ask a judge about the first seed's answers, as JSON lines.",
         .unit = "file"});
  t.add("judge-against", a.judge_against,
        {.help = "Let the judge compare with the answers in this file, an earlier --answers.",
         .unit = "file"});
  t.add("name", a.name,
        {.help = "What answers and judge prompts call the model; its folder by default.",
         .unit = "text"});
  describe_exit(t, a.exit);
}

void describe(OptionTable& t, EvaluateRequest& r) {
  t.section("", "Model:");
  describe_source(t, r.source);
  describe_loss(t, r);
  describe_answers(t, r.answer);
  t.section("", "Both:");
  t.add("context", r.context,
        {.help = "Longest record, or prompt and answer; 0 takes what the model allows.",
         .unit = "tokens",
         .range = at_least(0)});
  t.add("overlong", r.overlong,
        {.help = "What happens to a longer record or prompt: stop with an error, cut its end, or "
                 "leave it out."});
  t.add("output", r.output,
        {.help = "Also write the scores to this file, as JSON.", .unit = "file"});
  t.section("", "How it runs:");
  t.add("batch", r.batch,
        {.help = "Sequences that go through the model together.",
         .unit = "sequences",
         .range = at_least(1)});
  describe_ranks(t, r.ranks, true);
}

void check_answers(const AnswerOptions& a) {
  const auto rule = [](bool holds, const char* text) { require(holds, ErrorKind::usage, text); };
  rule(!a.prompts.empty() || (a.answers.empty() && a.judge.empty()),
       "--answers and --judge need questions: give --prompts=<file>");
  rule(!a.prompts.empty() || a.tasks.empty(), "--task needs questions: give --prompts=<file>");
  rule(!a.prompts.empty() || !a.exit.early(),
       "--exit is how answers are generated: give --prompts=<file>");
  rule(!a.judge.empty() || a.judge_against.empty(), "--judge-against needs --judge=<file>");
  check_exit(a.exit);
  if (a.prompts.empty()) return;
  check_sampling(a.sampling);
  rule(!a.seeds.empty(), "--seeds is empty; at least one is needed");
  rule(std::set(a.seeds.begin(), a.seeds.end()).size() == a.seeds.size(),
       "--seeds has a seed twice");
  rule(a.sampling.temperature > 0 || a.seeds.size() == 1,
       "--temperature=0 gives the same answers for every seed: give one, as in --seeds=1");
  rule(a.rouge || !a.tasks.empty() || !a.answers.empty() || !a.judge.empty(),
       "--rouge=false scores nothing: give --answers=<file> or --judge=<file>");
}

}  // namespace

const Command evaluate_command = {
    .name = "evaluate",
    .usage =
        "fathom evaluate (--model=DIR | --checkpoint=DIR) [--data=TOKENS.h5] "
        "[--prompts=FILE.jsonl]",
    .summary = "Score a model: loss on a token file, ROUGE-L or accuracy of its answers.",
    .example =
        "fathom evaluate --checkpoint=runs/quickstart --data=data/quickstart/eval.h5 "
        "--prompts=data_tools/samples/dolly.jsonl"};

namespace {

// What --task changes before the command line is read.
EvaluateRequest defaults_of(const std::vector<std::string>& tasks) {
  EvaluateRequest request;
  AnswerOptions& answer = request.answer;
  const auto sets = eval::choose_answer_sets(tasks);
  const bool short_answers = std::ranges::all_of(
      sets, [](const auto* set) { return set->form == eval::AnswerForm::choice; });
  answer.sampling = {.max_new = short_answers ? 32 : 256, .temperature = 0};
  answer.seeds = {10};
  answer.rouge = false;
  return request;
}

}  // namespace

EvaluateRequest parse_evaluate(const Arguments& arguments) {
  auto request = parse_request<EvaluateRequest>(evaluate_command, arguments, describe);
  if (request.reply) return request;
  if (const auto tasks = request.answer.tasks; !tasks.empty())
    request = parse_request(evaluate_command, arguments, describe, defaults_of(tasks));
  check_source(request.source);
  require(!request.data.empty() || !request.answer.prompts.empty(), ErrorKind::usage,
          "nothing to score: give --data=<tokens.h5>, --prompts=<file>, or both");
  require(!request.data.empty() || request.route_scope == RouteScope::stored, ErrorKind::usage,
          "--route-scope is how records are scored: give --data=<tokens.h5>");
  check_answers(request.answer);
  return request;
}

}  // namespace fathom::options
