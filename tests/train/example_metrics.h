#pragma once

#include "train/metrics/step_metrics.h"

namespace fathom::train {

/// Step `step` of a hundred, with numbers that tell the steps apart.
inline StepMetrics example_step(std::int64_t step) {
  StepMetrics m;
  m.step = step;
  m.steps = 100;
  m.loss = 4.0 + 0.25 * static_cast<double>(step);
  m.parts = {{"ce", 1.5}, {"kl", 2.5}};
  m.grad_norm = 0.75;
  m.lr = 1e-4;
  m.tokens = 20480;
  m.seconds = 2.0;
  m.tokens_per_s = 10240.4;
  m.peak_share = 0.714;
  m.memory_bytes = std::int64_t{3} << 30;
  return m;
}

inline EvalMetrics example_evaluation(std::int64_t step) {
  return {.step = step,
          .loss = 2.31,
          .perplexity = 10.0744,
          .accuracy = 0.512,
          .tokens = 20480,
          .seconds = 3.2};
}

}  // namespace fathom::train
