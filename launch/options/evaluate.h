#pragma once

#include <optional>
#include <string>

#include "launch/options/command_line.h"
#include "launch/options/shared.h"

namespace fathom::options {

/// `fathom evaluate`: loss, perplexity and token accuracy of a model on a token file.
struct EvaluateRequest {
  ModelSource source;
  std::string data;  ///< tokens.h5
  int batch = 4;
  int batches = 0;  ///< 0: the whole file
  int context = 0;  ///< tokens; 0: what the model allows
  train::Overlong overlong = train::Overlong::refuse;
  std::string output;  ///< JSON file; empty: standard output only
  Ranks ranks;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command evaluate_command;

/// Throws Error(usage) or Error(config).
EvaluateRequest parse_evaluate(const Arguments& arguments);

}  // namespace fathom::options
