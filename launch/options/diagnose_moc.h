#pragma once

#include <optional>
#include <string>

#include "launch/options/command_line.h"

namespace fathom::options {

/// `fathom diagnose moc`: what the controls of a run can do to the states that they are added to.
struct DiagnoseMocRequest {
  std::string checkpoint;            ///< checkpoint folder, or a run folder (its newest checkpoint)
  std::string output;                ///< folder of the report
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command diagnose_moc_command;

/// Throws Error(usage) or Error(config).
DiagnoseMocRequest parse_diagnose_moc(const Arguments& arguments);

}  // namespace fathom::options
