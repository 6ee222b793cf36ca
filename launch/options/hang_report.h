#pragma once

#include <optional>
#include <string>

#include "launch/options/command_line.h"

namespace fathom::options {

/// `fathom hang-report`: what the watchdogs of a run that hung have written.
struct HangReportRequest {
  std::string run;                   ///< run folder, or one of the folders in its hang/
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command hang_report_command;

/// Throws Error(usage) or Error(config).
HangReportRequest parse_hang_report(const Arguments& arguments);

}  // namespace fathom::options
