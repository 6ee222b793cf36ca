#pragma once

#include "generate/exit_options.h"
#include "launch/options/option_table.h"

namespace fathom::options {

void describe_exit(OptionTable& table, generate::ExitOptions& exit);

/// Throws Error(usage) for options that do not belong to the chosen --exit.
void check_exit(const generate::ExitOptions& exit);

}  // namespace fathom::options
