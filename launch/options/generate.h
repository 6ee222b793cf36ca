#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/options/command_line.h"
#include "launch/options/shared.h"

namespace fathom::options {

/// `fathom generate`: text from a model and one prompt, or one prompt a line of a file.
struct GenerateRequest {
  ModelSource source;
  std::string prompt;
  std::string prompt_file;
  bool chat = false;
  std::string system;
  int max_new = 128;
  bool ignore_eos = false;
  double temperature = 0.0;  ///< 0: greedy
  int top_k = 0;             ///< 0: off
  double top_p = 1.0;        ///< 1: off
  int no_repeat_ngram = 0;   ///< 0: off
  std::int64_t seed = 1;
  int batch = 1;
  bool stream = false;
  Ranks ranks;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command generate_command;

/// Throws Error(usage) or Error(config).
GenerateRequest parse_generate(const Arguments& arguments);

}  // namespace fathom::options
