#pragma once

#include <optional>

#include "core/log.h"
#include "core/timer.h"
#include "train/metrics/step_metrics.h"

namespace fathom::train {

/// Seconds that the rest of a run will take, from a moving average of its steps. The first step is
/// forgotten as soon as there is a second: it pays for first touches.
class Pace {
 public:
  void add(double seconds);
  double remaining(std::int64_t steps_left) const;

 private:
  double average_ = 0.0;
  int count_ = 0;
};

/// "step 120/300  loss 2.3457  5,120 tok/s  71% of peak  3.1 GiB  ETA 2:34"
std::string progress_text(const StepMetrics& metrics, double remaining_seconds);

/// "eval after step 100: loss 2.3100  perplexity 10.07  accuracy 51.2%  (20,480 tokens, 0:03)"
std::string evaluation_text(const EvalMetrics& metrics);

/// One line, painted over in place at most ten times a second; evaluations stay above it.
class LiveProgress : public MetricSink {
 public:
  explicit LiveProgress(Logger& out) : out_(&out) {}
  ~LiveProgress() override;

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvalMetrics& metrics) override;

 private:
  Logger* out_;
  Pace pace_;
  std::optional<Timer> since_paint_;
};

/// Lines in fixed columns, every `every` steps and at the first and the last, under a heading that
/// comes again after each forty of them.
class ColumnLog : public MetricSink {
 public:
  ColumnLog(Logger& out, std::int64_t every) : out_(&out), every_(every) {}

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvalMetrics& metrics) override;

 private:
  Logger* out_;
  std::int64_t every_;
  Pace pace_;
  int lines_ = 0;
};

}  // namespace fathom::train
