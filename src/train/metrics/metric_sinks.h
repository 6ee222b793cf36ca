#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "train/config.h"
#include "train/metrics/step_metrics.h"

namespace fathom::train {

/// Every place a run asked for, behind one sink.
class MetricSinks : public MetricSink {
 public:
  /// Sinks of rank 0 for this run: run.dir/metrics.jsonl, run.dir/tensorboard, and the console,
  /// where a live line is painted on a terminal and columns are printed elsewhere. `resumed_step`
  /// is the step of the checkpoint the run goes on from; none for a new run. Throws Error(io).
  MetricSinks(const RunConfig& run, const LogConfig& log, std::optional<std::int64_t> resumed_step);

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvalMetrics& metrics) override;

 private:
  std::vector<std::unique_ptr<MetricSink>> sinks_;
};

}  // namespace fathom::train
