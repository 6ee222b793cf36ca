#pragma once

#include <optional>
#include <string>

#include "launch/options/command_line.h"
#include "train/config.h"

namespace fathom::options {

/// `fathom probe`: one forward (and backward) pass on given token ids, for comparison with another
/// implementation. Model, teacher, grid and losses come from the sections of a recipe.
struct ProbeRequest {
  std::string recipe;  ///< INI file; may be empty
  std::string input;   ///< safetensors with input_ids, attention_mask, labels
  std::string output;  ///< folder for expected.safetensors and, with gradients, grads.safetensors
  bool hidden = true;
  bool gradients = false;
  int steps = 0;  ///< optimizer steps to take after the first pass
  train::TrainConfig config;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command probe_command;

/// Throws Error(usage) or Error(config); rules of data, schedule and saving are not asked.
ProbeRequest parse_probe(const Arguments& arguments);

}  // namespace fathom::options
