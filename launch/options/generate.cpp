#include "launch/options/generate.h"

namespace fathom::options {
namespace {

void describe(OptionTable& t, GenerateRequest& r) {
  t.section("", "Model and prompts:");
  describe_source(t, r.source);
  t.add("prompt", r.prompt, {.help = "Text to continue.", .unit = "text"});
  t.add("prompt-file", r.prompt_file,
        {.help = "File with one prompt a line; - reads standard input.", .unit = "file"});
  t.add("chat", r.chat, {.help = "Wrap each prompt in the model's chat template."});
  t.add("system", r.system, {.help = "System message of the chat template.", .unit = "text"});
  t.section("", "How a token is chosen:");
  describe_sampling(t, r.sampling);
  t.add("ignore-eos", r.ignore_eos, {.help = "Go on after an end-of-text token."});
  t.add("seed", r.seed, {.help = "Seed of the sampling.", .range = at_least(0)});
  describe_exit(t, r.exit);
  t.add("exit-compare", r.exit_compare,
        {.help = "Afterwards, decode the prompts four more times with exits and four times through "
                 "all layers, in turns, and say how much faster it was beside what is possible."});
  t.section("", "How it runs:");
  t.add("batch", r.batch,
        {.help = "Prompts that are decoded together.", .unit = "sequences", .range = at_least(1)});
  t.add("stream", r.stream, {.help = "Print tokens as they come; one prompt at a time."});
  describe_ranks(t, r.ranks, false);
}

void check(const GenerateRequest& r) {
  const auto rule = [](bool holds, const char* text) { require(holds, ErrorKind::usage, text); };
  check_source(r.source);
  rule(r.prompt.empty() != r.prompt_file.empty(),
       "give exactly one of --prompt=<text> and --prompt-file=<file>");
  rule(r.chat || r.system.empty(), "--system needs --chat");
  rule(!r.stream || r.batch == 1, "--stream shows one prompt at a time: leave --batch at 1");
  check_sampling(r.sampling);
  check_exit(r.exit);
  rule(r.exit.early() || !r.exit_compare, "--exit-compare needs --exit=topk or --exit=threshold");
}

}  // namespace

const Command generate_command = {
    .name = "generate",
    .usage = "fathom generate (--model=DIR | --checkpoint=DIR) (--prompt=TEXT | --prompt-file=F)",
    .summary = "Continue prompts with a model.",
    .example = "fathom generate --model=smollm2 --chat --prompt='Name three rivers.' --stream"};

GenerateRequest parse_generate(const Arguments& arguments) {
  auto request = parse_request<GenerateRequest>(generate_command, arguments, describe);
  if (!request.reply) check(request);
  return request;
}

}  // namespace fathom::options
