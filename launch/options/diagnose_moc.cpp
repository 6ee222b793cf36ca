#include "launch/options/diagnose_moc.h"

namespace fathom::options {
namespace {

void describe_text(OptionTable& t, DiagnoseMocRequest& r) {
  t.section("", "Text that the model reads; without any, operator norms alone are reported:");
  t.add("text", r.text, {.help = "One text, word for word.", .unit = "text"});
  t.add("data", r.data, {.help = "Records instead.", .unit = "tokens.h5 file"});
  describe_any_tokenizer(t, r.any_tokenizer);
  t.add("records", r.records, {.help = "Records from the start of --data.", .range = at_least(1)});
  t.add("batch", r.batch,
        {.help = "Records that go through the model together, and with moc.eval_scope = microbatch "
                 "choose together.",
         .unit = "records",
         .range = at_least(1)});
  t.add("context", r.context,
        {.help = "Longer records lose their end; 0 takes what the model allows.",
         .unit = "tokens",
         .range = at_least(0)});
  t.add("against", r.against,
        {.help = "Another run of the same model. What its sites add to states becomes the target "
                 "that the controls are compared with; with mixture of control there too, its "
                 "choices are compared as well.",
         .unit = "folder"});
}

void describe_jacobians(OptionTable& t, DiagnoseMocRequest& r) {
  t.section("", "Jacobians:");
  t.add("probes", r.probes,
        {.help = "Random vectors for norms from each layer to the last, 2 at least; 0 leaves "
                 "Jacobians out.",
         .range = at_least(0)});
  t.add("iterations", r.iterations,
        {.help = "Most steps of the power method; it stops where all norms change by less than "
                 "1 %.",
         .range = at_least(1)});
  t.add("jacobian-tokens", r.jacobian_tokens,
        {.help = "Tokens from the front of the text at whose states Jacobians are taken.",
         .unit = "tokens",
         .range = at_least(1)});
}

void describe(OptionTable& t, DiagnoseMocRequest& r) {
  t.section("", "What to look at:");
  t.add("run", r.checkpoint,
        {.help = "Checkpoint with mixture of control or Parallel Control, of whatever grid, or a "
                 "run folder, whose newest checkpoint is taken.",
         .unit = "folder",
         .required = true,
         .position = 0});
  describe_text(t, r);
  describe_jacobians(t, r);
  t.section("", "What to write, and how:");
  t.add("output", r.output,
        {.help = "Folder for report.json, a CSV file for each table, and report.svg.",
         .unit = "folder",
         .required = true});
  describe_machine(t, r.machine);
}

}  // namespace

const Command diagnose_moc_command = {
    .name = "moc",
    .usage = "fathom diagnose moc RUN [--text=TEXT | --data=TOKENS.h5] --output=DIR",
    .summary = "Mixture of control and Parallel Control: norms, growth, Jacobians, routing.",
    .example = "fathom diagnose moc runs/moc --data=data/math/eval.h5 --output=report"};

DiagnoseMocRequest parse_diagnose_moc(const Arguments& arguments) {
  auto request = parse_request<DiagnoseMocRequest>(diagnose_moc_command, arguments, describe);
  if (request.reply) return request;
  const auto rule = [](bool holds, const char* text) { require(holds, ErrorKind::usage, text); };
  rule(request.text.empty() || request.data.empty(),
       "--text and --data exclude each other; give one");
  rule(request.reads_text() || request.against.empty(),
       "--against compares what both runs do to a text: give --text=<text> or --data=<tokens.h5>");
  rule(request.probes != 1, "--probes=1 has no standard error; give 2 or more, or 0 for none");
  return request;
}

}  // namespace fathom::options
