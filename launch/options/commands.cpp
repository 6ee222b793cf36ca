#include "launch/options/commands.h"

#include <algorithm>

#include "launch/options/checkpoint.h"
#include "launch/options/data_commands.h"
#include "launch/options/diagnose.h"
#include "launch/options/edit_distance.h"
#include "launch/options/evaluate.h"
#include "launch/options/generate.h"
#include "launch/options/hang_report.h"
#include "launch/options/pairs.h"
#include "launch/options/probe.h"
#include "launch/options/spans.h"
#include "launch/options/train.h"

namespace fathom::options {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      train_command,      generate_command,    evaluate_command, pairs_command,
      tokenize_command,   spans_command,       import_command,   convert_command,
      checkpoint_command, hang_report_command, probe_command,    diagnose_command};
  return all;
}

std::string overview_line(const Command& command) {
  std::string name(command.name);
  name.resize(12, ' ');
  return "  " + name + std::string(command.summary) + "\n";
}

std::string overview() {
  std::string page =
      "fathom trains, distils and runs transformers through their depth.\n\n"
      "Usage: fathom <command> [options]      fathom <command> --help\n\n";
  for (const Command& command : commands()) page += overview_line(command);
  return page +
         "\nExit codes: 0 done; 1 what was compared differs, or a check fails (spans, diagnose); 2 "
         "usage or\nconfiguration; 3 data; 4 files and checkpoints; 5 communication; 6 numbers "
         "that are not finite;\n70 a broken promise inside fathom; 75 training stopped on request "
         "(SIGUSR1 or SIGTERM) and saved:\nthe same command goes on.\n";
}

void fail_unknown_command(const std::string& word) {
  fail_unknown(word, commands(), "command", "fathom --help");
}

void fail_unknown(const std::string& word, const std::vector<Command>& all, const std::string& what,
                  const std::string& help) {
  const auto nearest = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return edit_distance(a.name, word) < edit_distance(b.name, word);
  });
  const bool close =
      edit_distance(nearest->name, word) <= std::max<std::size_t>(2, word.size() / 3);
  fail(ErrorKind::usage, "unknown ", what, " '", word,
       "': ", close ? str("did you mean '", nearest->name, "'?") : help + " lists them");
}

}  // namespace fathom::options
