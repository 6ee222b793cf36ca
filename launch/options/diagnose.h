#pragma once

#include <string>
#include <vector>

#include "launch/options/command_line.h"

namespace fathom::options {

/// `fathom diagnose <what>`: each diagnosis has options of its own.
extern const Command diagnose_command;

/// Every diagnosis, named by the word behind `diagnose`.
const std::vector<Command>& diagnoses();

/// The page for `fathom diagnose --help`: one line for each diagnosis.
std::string diagnose_overview();

/// Throws the Error(usage) for a word that is no diagnosis; names the nearest one.
[[noreturn]] void fail_unknown_diagnosis(const std::string& word);

}  // namespace fathom::options
