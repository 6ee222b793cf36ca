#include "launch/options/evaluate.h"

namespace fathom::options {
namespace {

void describe(OptionTable& t, EvaluateRequest& r) {
  t.section("", "Model and data:");
  describe_source(t, r.source);
  t.add("data", r.data, {.help = "Records to score.", .unit = "tokens.h5 file", .required = true});
  t.add("context", r.context,
        {.help = "Longest record, prompt included; 0 takes what the model allows.",
         .unit = "tokens",
         .range = at_least(0)});
  t.add("overlong", r.overlong,
        {.help = "What happens to a longer record: stop with an error, cut its end, or leave it "
                 "out."});
  t.add("output", r.output,
        {.help = "Also write the scores to this file, as JSON.", .unit = "file"});
  t.section("", "How it runs:");
  t.add("batch", r.batch,
        {.help = "Sequences that go through the model together.",
         .unit = "sequences",
         .range = at_least(1)});
  t.add("batches", r.batches,
        {.help = "Batches from the start of the file; 0 scores all.",
         .unit = "batches",
         .range = at_least(0)});
  describe_ranks(t, r.ranks, true);
}

}  // namespace

const Command evaluate_command = {
    .name = "evaluate",
    .usage = "fathom evaluate (--model=DIR | --checkpoint=DIR) --data=TOKENS.h5",
    .summary = "Score a model on a token file: loss, perplexity, token accuracy.",
    .example = "fathom evaluate --checkpoint=runs/quickstart --data=data/dolly/eval.h5"};

EvaluateRequest parse_evaluate(const Arguments& arguments) {
  auto request = parse_request<EvaluateRequest>(evaluate_command, arguments, describe);
  if (!request.reply) check_source(request.source);
  return request;
}

}  // namespace fathom::options
