#include "launch/options/diagnose.h"

#include "launch/options/commands.h"
#include "launch/options/diagnose_depth.h"
#include "launch/options/diagnose_moc.h"

namespace fathom::options {

const Command diagnose_command = {
    .name = "diagnose",
    .usage = "fathom diagnose WHAT RUN --output=DIR [options]",
    .summary = "Look into what a trained method does, and check what its theory says of it.",
    .example = "fathom diagnose moc runs/moc --output=report"};

const std::vector<Command>& diagnoses() {
  static const std::vector<Command> all = {diagnose_depth_command, diagnose_moc_command};
  return all;
}

std::string diagnose_overview() {
  std::string page = str(diagnose_command.summary, "\n\nUsage: ", diagnose_command.usage,
                         "      fathom diagnose WHAT --help\n\n");
  for (const Command& diagnosis : diagnoses()) page += overview_line(diagnosis);
  return page +
         "\nExit code 0 if every inequality that was checked holds, 1 if one does not; others as "
         "in fathom\n--help.\n";
}

void fail_unknown_diagnosis(const std::string& word) {
  fail_unknown(word, diagnoses(), "diagnosis", "fathom diagnose --help");
}

}  // namespace fathom::options
