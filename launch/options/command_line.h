#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/options/option_table.h"

namespace fathom::options {

/// The words behind `fathom <command>`.
using Arguments = std::vector<std::string>;

/// What `fathom <name> --help` says above its options.
struct Command {
  std::string_view name;
  std::string_view usage;    ///< "fathom train [RECIPE.ini] [--section.key=value ...]"
  std::string_view summary;  ///< one line, also in the overview
  std::string_view example;
};

/// True when --help or -h stands anywhere before a `--`.
bool asks_for_help(const Arguments& arguments);

/// Assigns every `--name=value`, `--name value`, `--flag` and argument without a name. If the table
/// has an option `recipe` that was given, that file is read before the options with a section, so
/// the command line beats the file; of two equal names on the line the last counts. Throws
/// Error(usage) for a malformed line or a missing required option, Error(config) for names and
/// values.
void parse_command_line(OptionTable& table, const Arguments& arguments);

/// The page for --help, from the table: each option with what it accepts, its unit and its default.
std::string help_text(const Command& command, const OptionTable& table);

/// What every parse_* function of a command does: `bind(table, request)` describes the options;
/// request.reply is set to the help page when that was asked for, and nothing else is read then.
/// `request` has the defaults.
template <typename Request, typename Bind>
Request parse_request(const Command& command, const Arguments& arguments, Bind bind,
                      Request request = {}) {
  OptionTable table;
  bind(table, request);
  if (asks_for_help(arguments))
    request.reply = help_text(command, table);
  else
    parse_command_line(table, arguments);
  return request;
}

}  // namespace fathom::options
