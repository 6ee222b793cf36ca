#pragma once

#include "launch/options/command_line.h"

namespace fathom::launch {

// One function a diagnosis: takes the words behind its name and returns the exit code, as
// diagnose::Report::exit_code() has it.
int diagnose_depth(const options::Arguments& arguments);
int diagnose_moc(const options::Arguments& arguments);

}  // namespace fathom::launch
