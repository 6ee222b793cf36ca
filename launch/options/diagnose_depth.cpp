#include "launch/options/diagnose_depth.h"

namespace fathom::options {
namespace {

void describe_rule(OptionTable& t, diagnose::depth::DepthRule& rule) {
  t.section("", "A layer is worth a vote, as are all later ones, if it has at least:");
  t.add("gain", rule.gain,
        {.help = "This share of the tokens right that no later layer has right.",
         .range = within(0, 1)});
  t.add("agreement", rule.agreement,
        {.help = "This share of the tokens where it puts first what the last layer does.",
         .range = within(0, 1)});
  t.add("weight", rule.weight,
        {.help = "This mean router weight, where the model has a trained router.",
         .range = within(0, 1)});
}

void describe(OptionTable& t, DiagnoseDepthRequest& r) {
  t.section("", "Model and text:");
  describe_source(t, r.source);
  t.add("data", r.data,
        {.help = "Records whose supervised tokens each layer is held against.",
         .unit = "tokens.h5 file",
         .required = true});
  describe_any_tokenizer(t, r.any_tokenizer);
  t.add("layers", r.layers,
        {.help = "Late layers to look at in a model whose layers do not vote yet, each through the "
                 "final norm; 0 takes half of them. Where layers vote, those are looked at.",
         .unit = "layers",
         .range = at_least(0)});
  t.add("batch", r.batch,
        {.help = "Records that go through the model together.", .range = at_least(1)});
  t.add("batches", r.batches,
        {.help = "Batches from the start of the file; 0 takes all.",
         .unit = "batches",
         .range = at_least(0)});
  t.add("context", r.context,
        {.help = "Longest record; 0 takes what the model allows.",
         .unit = "tokens",
         .range = at_least(0)});
  t.add("overlong", r.overlong, {.help = "What happens to longer records."});
  describe_rule(t, r.rule);
  t.section("", "Where to, and on what:");
  t.add("output", r.output,
        {.help = "Folder for report.json, a CSV file for each table, and report.svg.",
         .unit = "folder",
         .required = true});
  describe_ranks(t, r.ranks, true);
}

}  // namespace

const Command diagnose_depth_command = {
    .name = "depth",
    .usage = "fathom diagnose depth --model=DIR|--checkpoint=DIR --data=FILE --output=DIR",
    .summary = "Each late layer's own loss and answers, and how many layers are worth a vote.",
    .example = "fathom diagnose depth --model=smollm2 --data=eval.h5 --layers=8 --output=report"};

DiagnoseDepthRequest parse_diagnose_depth(const Arguments& arguments) {
  auto request = parse_request<DiagnoseDepthRequest>(diagnose_depth_command, arguments, describe);
  if (!request.reply) check_source(request.source);
  return request;
}

}  // namespace fathom::options
