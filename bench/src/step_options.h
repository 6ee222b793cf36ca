#pragma once

#include <optional>

#include "train/config.h"

namespace fathom::bench {

/// What bench_step is asked to time.
struct StepOptions {
  train::TrainConfig config;
  std::int64_t length = 256;  ///< tokens of a sequence
  int warmup = 1, steps = 4;
  bool serve = false;
};

/// Reads the command line; empty when only help was asked for, which is then printed. Throws
/// Error(usage) or Error(config) for what cannot be run.
std::optional<StepOptions> parse_step_options(int argc, char** argv);

}  // namespace fathom::bench
