#include "launch/options/diagnose.h"

#include <array>
#include <iostream>

#include "launch/commands/commands.h"
#include "launch/commands/diagnose.h"

namespace fathom::launch {
namespace {

struct Entry {
  std::string_view name;
  int (*run)(const Arguments&);
};

constexpr std::array kDiagnoses = {
    Entry{"depth", diagnose_depth},
    Entry{"moc", diagnose_moc},
};

}  // namespace

int diagnose_command(const Arguments& arguments) {
  const std::string word = arguments.empty() ? "--help" : arguments.front();
  if (word == "--help" || word == "-h") {
    std::cout << options::diagnose_overview();
    return arguments.empty() ? 2 : 0;
  }
  for (const Entry& entry : kDiagnoses)
    if (entry.name == word) return entry.run({arguments.begin() + 1, arguments.end()});
  options::fail_unknown_diagnosis(word);
}

}  // namespace fathom::launch
