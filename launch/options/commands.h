#pragma once

#include <string>
#include <vector>

#include "launch/options/command_line.h"

namespace fathom::options {

/// Every subcommand, in the order of the overview.
const std::vector<Command>& commands();

/// The page for `fathom --help`: one line for each command.
std::string overview();

/// A command's line in such a page.
std::string overview_line(const Command& command);

/// Throws the Error(usage) for a word that is no command; names the nearest one.
[[noreturn]] void fail_unknown_command(const std::string& word);

/// The same for other lists: `what` they are of, and the command line `help` that shows them.
[[noreturn]] void fail_unknown(const std::string& word, const std::vector<Command>& all,
                               const std::string& what, const std::string& help);

}  // namespace fathom::options
