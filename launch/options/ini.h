#pragma once

#include <string>

#include "launch/options/option_table.h"

/// Recipe files: `[section]` lines, `key = value` lines, comments from '#' to the end of a line.
namespace fathom::options {

/// Assigns every key of the text. `source` stands in messages and origins as "source:line". Throws
/// Error(config) for a line that is neither form, a key given twice, an unknown key or a bad value.
void read_ini(OptionTable& table, const std::string& text, const std::string& source);

/// The same for a file; throws Error(config) naming the path when it cannot be read.
void read_ini_file(OptionTable& table, const std::string& path);

/// Every option that may stand in a file with its current value, one section after the other: a
/// recipe that read_ini turns back into the same values.
std::string to_ini(const OptionTable& table);

}  // namespace fathom::options
