#pragma once

#include <cstdint>

#include "generate/sampling.h"
#include "launch/options/option_table.h"

namespace fathom::options {

/// How many tokens are added to a prompt, and how each is chosen.
struct SamplingOptions {
  int max_new = 128;
  double temperature = 0.0;  ///< 0: greedy
  int top_k = 0;             ///< 0: off
  double top_p = 1.0;        ///< 1: off
  int no_repeat_ngram = 0;   ///< 0: off

  generate::Sampling with_seed(std::int64_t seed) const;
};

void describe_sampling(OptionTable& table, SamplingOptions& sampling);

/// Throws Error(usage) for cuts of samples where nothing is sampled.
void check_sampling(const SamplingOptions& sampling);

}  // namespace fathom::options
