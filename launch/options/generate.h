#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/options/command_line.h"
#include "launch/options/exit.h"
#include "launch/options/sampling.h"
#include "launch/options/shared.h"

namespace fathom::options {

/// `fathom generate`: text from a model and one prompt, or one prompt a line of a file.
struct GenerateRequest {
  ModelSource source;
  std::string prompt;
  std::string prompt_file;
  bool chat = false;
  std::string system;
  SamplingOptions sampling;
  bool ignore_eos = false;
  std::int64_t seed = 1;
  generate::ExitOptions exit;
  bool exit_compare = false;
  int batch = 1;
  bool stream = false;
  Ranks ranks;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command generate_command;

/// Throws Error(usage) or Error(config).
GenerateRequest parse_generate(const Arguments& arguments);

}  // namespace fathom::options
