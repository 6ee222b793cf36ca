#include "train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fathom::train {
namespace {

/// Share of a phase of `length` steps that is over after `done` of them.
double progress(std::int64_t done, std::int64_t length) {
  return std::clamp(static_cast<double>(done) / std::max<std::int64_t>(1, length), 0.0, 1.0);
}

double half_cosine(double p) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * p));
}

}  // namespace

double lr_factor(const ScheduleConfig& schedule, std::int64_t step, std::int64_t steps) {
  const std::int64_t warmup = schedule.warmup_steps;
  const double lowest = schedule.min_lr_ratio;
  const auto above_lowest = [&](double factor) { return lowest + (1.0 - lowest) * factor; };
  if (step < warmup) return progress(step, warmup);
  const std::int64_t decay = schedule.decay_steps > 0 ? schedule.decay_steps : steps - warmup;
  switch (schedule.kind) {
    case ScheduleKind::constant:
      return 1.0;
    case ScheduleKind::linear:
      return above_lowest(1.0 - progress(step - warmup, decay));
    case ScheduleKind::cosine:
      return above_lowest(half_cosine(progress(step - warmup, decay)));
    case ScheduleKind::wsd:
      return above_lowest(half_cosine(progress(step - (steps - decay), decay)));
  }
  return 1.0;
}

}  // namespace fathom::train
