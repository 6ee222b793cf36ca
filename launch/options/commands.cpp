#include "launch/options/commands.h"

#include <algorithm>

#include "launch/options/checkpoint.h"
#include "launch/options/data_commands.h"
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
      checkpoint_command, hang_report_command, probe_command};
  return all;
}

std::string overview() {
  std::string page =
      "fathom trains, distils and runs transformers through their depth.\n\n"
      "Usage: fathom <command> [options]      fathom <command> --help\n\n";
  for (const Command& command : commands()) {
    std::string name(command.name);
    name.resize(12, ' ');
    page += "  " + name + std::string(command.summary) + "\n";
  }
  return page +
         "\nExit codes: 0 done; 2 usage or configuration; 3 data; 4 files and checkpoints; 5 "
         "communication;\n6 numbers that are not finite; 70 a broken promise inside fathom; 75 "
         "training stopped on request\n(SIGUSR1 or SIGTERM) and saved: the same command goes on.\n";
}

void fail_unknown_command(const std::string& word) {
  const auto& all = commands();
  const auto nearest = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return edit_distance(a.name, word) < edit_distance(b.name, word);
  });
  const bool close =
      edit_distance(nearest->name, word) <= std::max<std::size_t>(2, word.size() / 3);
  fail(ErrorKind::usage, "unknown command '", word,
       "': ", close ? str("did you mean '", nearest->name, "'?") : "fathom --help lists them");
}

}  // namespace fathom::options
