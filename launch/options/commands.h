#pragma once

#include <string>
#include <vector>

#include "launch/options/command_line.h"

namespace fathom::options {

/// Every subcommand, in the order of the overview.
const std::vector<Command>& commands();

/// The page for `fathom --help`: one line for each command.
std::string overview();

/// Throws the Error(usage) for a word that is no command; names the nearest one.
[[noreturn]] void fail_unknown_command(const std::string& word);

}  // namespace fathom::options
