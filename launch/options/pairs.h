#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/options/command_line.h"
#include "launch/options/sampling.h"
#include "launch/options/shared.h"

namespace fathom::options {

/// `fathom pairs`: the teacher's and the student's answers to the prompts of a token file.
struct PairsRequest {
  ModelSource source;          ///< the student
  std::string teacher;         ///< Hugging Face folder
  std::string tokens;          ///< tokens.h5
  bool any_tokenizer = false;  ///< whatever made the token file
  std::string output;          ///< folder
  int context = 0;             ///< tokens; 0: what both models allow
  int prompts = 0;             ///< from the start of the file; 0: all
  SamplingOptions sampling = {.max_new = 256, .temperature = 0.8};
  std::int64_t seed = 1;
  int batch = 32;
  Ranks ranks;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command pairs_command;

/// Throws Error(usage) or Error(config).
PairsRequest parse_pairs(const Arguments& arguments);

}  // namespace fathom::options
