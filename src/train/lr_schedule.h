#pragma once

#include <cstdint>

#include "train/config.h"

namespace fathom::train {

/// Learning rate of a step as a share of optim.lr, a pure function of the step, so a resumed run
/// needs no state. `step` counts from 0, `steps` is run.steps. With w = warmup_steps,
/// d = decay_steps (0: steps - w), m = min_lr_ratio and g(f) = m + (1 - m) f:
///
///   step < w         step / w                       whatever the kind
///   constant         1
///   linear           g(1 - p)                       p = min(1, (step - w) / d)
///   cosine           g((1 + cos(pi p)) / 2)         the same p
///   wsd              g((1 + cos(pi p)) / 2)         p = (step - (steps - d)) / d, at least 0
///
/// These are the factors of the Transformers library (whose wsd warms up from m, not from 0): the
/// first step of a warm-up has factor 0. From `steps` on, a decaying kind stays at m.
double lr_factor(const ScheduleConfig& schedule, std::int64_t step, std::int64_t steps);

}  // namespace fathom::train
