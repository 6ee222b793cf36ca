#pragma once

#include "launch/options/command_line.h"

namespace fathom::launch {

using options::Arguments;

// One function a subcommand: takes the words behind its name and returns the exit code. Each throws
// fathom::Error for a request that cannot be met before anything has started.
int train_command(const Arguments& arguments);
int generate_command(const Arguments& arguments);
int evaluate_command(const Arguments& arguments);
int pairs_command(const Arguments& arguments);
int probe_command(const Arguments& arguments);
int tokenize_command(const Arguments& arguments);
int import_command(const Arguments& arguments);
int convert_command(const Arguments& arguments);
int checkpoint_command(const Arguments& arguments);
int spans_command(const Arguments& arguments);
int hang_report_command(const Arguments& arguments);
int diagnose_command(const Arguments& arguments);

}  // namespace fathom::launch
