#include "launch/options/probe.h"

#include "launch/options/train.h"

namespace fathom::options {
namespace {

void describe(OptionTable& t, ProbeRequest& r) {
  t.section("", "Options of the command line alone:");
  t.add("recipe", r.recipe,
        {.help = "Recipe whose model, teacher, grid and losses are built, without dropout; options "
                 "on the command line beat it.",
         .unit = "INI file",
         .position = 0});
  t.add(
      "input", r.input,
      {.help = "safetensors file with input_ids, attention_mask and labels, [batch, length] each.",
       .unit = "file",
       .required = true});
  t.add("output", r.output,
        {.help = "Folder for expected.safetensors (logits, hidden.N, cross_entropy and loss, the "
                 "recipe's whole objective, of which the gradients are) and grads.safetensors.",
         .unit = "folder",
         .required = true});
  t.add("hidden", r.hidden, {.help = "Write the hidden state after every layer."});
  t.add("gradients", r.gradients, {.help = "Run backward and write every gradient as grad.NAME."});
  t.add("steps", r.steps,
        {.help = "Then take this many optimizer steps on the same batch and write their losses.",
         .unit = "steps",
         .range = at_least(0)});
  describe_train(t, r.config);
}

}  // namespace

const Command probe_command = {
    .name = "probe",
    .usage = "fathom probe [RECIPE.ini] --input=FILE --output=DIR [--section.key=value ...]",
    .summary = "Write logits, loss, hidden states and gradients for given token ids.",
    .example =
        "fathom probe --model.path=gpt2 --input=inputs.safetensors --output=out --gradients"};

ProbeRequest parse_probe(const Arguments& arguments) {
  ProbeRequest request;
  OptionTable table;
  describe(table, request);
  if (asks_for_help(arguments)) {
    request.reply = help_text(probe_command, table);
    return request;
  }
  parse_command_line(table, arguments);
  auto broken = train::engine_violations(request.config);
  if (request.config.mta.enabled)
    broken.push_back({{"mta.enabled"},
                      "token ids have no words and phrases to compare; --mta.enabled=false probes "
                      "the rest of the recipe"});
  refuse(broken, table);
  return request;
}

}  // namespace fathom::options
