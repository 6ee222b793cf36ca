#include "launch/options/pairs.h"

namespace fathom::options {
namespace {

void describe(OptionTable& t, PairsRequest& r) {
  t.section("", "The student:");
  describe_source(t, r.source);
  t.section("", "The teacher and the prompts:");
  t.add("teacher", r.teacher, {.help = "The teacher's Hugging Face folder.", .unit = "folder"});
  t.add("tokens", r.tokens,
        {.help = "Records whose prompts are answered.", .unit = "tokens.h5 file"});
  describe_any_tokenizer(t, r.any_tokenizer);
  t.add("prompts", r.prompts,
        {.help = "Records from the start of the file; 0 takes all.", .range = at_least(0)});
  t.add("output", r.output,
        {.help = "Folder for chosen.h5 and rejected.h5, which must not be there yet.",
         .unit = "folder"});
  t.section("", "The answers:");
  describe_sampling(t, r.sampling);
  t.add("context", r.context,
        {.help = "Longest prompt and answer; 0 takes what both models allow.",
         .unit = "tokens",
         .range = at_least(0)});
  t.add("seed", r.seed, {.help = "Seed of the sampling.", .range = at_least(0)});
  t.section("", "How it runs:");
  t.add("batch", r.batch,
        {.help = "Prompts that each replica answers together.",
         .unit = "sequences",
         .range = at_least(1)});
  describe_ranks(t, r.ranks, true);
}

void check(const PairsRequest& r) {
  const auto rule = [](bool holds, const char* text) { require(holds, ErrorKind::usage, text); };
  check_source(r.source);
  rule(!r.teacher.empty(), "--teacher=<folder> is needed: who gives the better answers");
  rule(!r.tokens.empty(), "--tokens=<file> is needed: the prompts to answer");
  rule(!r.output.empty(), "--output=<folder> is needed");
  check_sampling(r.sampling);
}

}  // namespace

const Command pairs_command = {
    .name = "pairs",
    .usage = "fathom pairs (--model=DIR | --checkpoint=DIR) --teacher=DIR --tokens=F --output=DIR",
    .summary = "Answer prompts with teacher and student, for distill.method = contrastive.",
    .example = "fathom pairs --model=student --teacher=smollm2 --tokens=train.h5 --output=pairs"};

PairsRequest parse_pairs(const Arguments& arguments) {
  auto request = parse_request<PairsRequest>(pairs_command, arguments, describe);
  if (!request.reply) check(request);
  return request;
}

}  // namespace fathom::options
