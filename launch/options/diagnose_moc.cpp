#include "launch/options/diagnose_moc.h"

namespace fathom::options {
namespace {

void describe(OptionTable& t, DiagnoseMocRequest& r) {
  t.section("", "What to look at:");
  t.add("run", r.checkpoint,
        {.help = "Checkpoint with mixture of control or Parallel Control, of whatever grid, or a "
                 "run folder, whose newest checkpoint is taken.",
         .unit = "folder",
         .required = true,
         .position = 0});
  t.section("", "What to write:");
  t.add("output", r.output,
        {.help = "Folder for report.json, a CSV file for each table, and report.svg.",
         .unit = "folder",
         .required = true});
}

}  // namespace

const Command diagnose_moc_command = {
    .name = "moc",
    .usage = "fathom diagnose moc RUN --output=DIR",
    .summary = "Operator norms of the controls of mixture of control or Parallel Control.",
    .example = "fathom diagnose moc runs/moc --output=report"};

DiagnoseMocRequest parse_diagnose_moc(const Arguments& arguments) {
  return parse_request<DiagnoseMocRequest>(diagnose_moc_command, arguments, describe);
}

}  // namespace fathom::options
