#include "train/metrics/metric_sinks.h"

#include <filesystem>

#include "core/log.h"
#include "train/metrics/console_sinks.h"
#include "train/metrics/jsonl_sink.h"
#include "train/metrics/tensorboard_sink.h"

namespace fathom::train {

MetricSinks::MetricSinks(const RunConfig& run, const LogConfig& log,
                         std::optional<std::int64_t> resumed_step) {
  const std::filesystem::path dir = run.dir;
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  require(!error, ErrorKind::io, "cannot make the run folder ", run.dir, ": ", error.message());
  if (log.jsonl) sinks_.push_back(std::make_unique<JsonlSink>(dir / "metrics.jsonl", resumed_step));
  if (log.tensorboard)
    sinks_.push_back(std::make_unique<TensorboardSink>(dir / "tensorboard", resumed_step));
  if (run.quiet) return;
  const bool live = log.progress == ProgressMode::on ||
                    (log.progress == ProgressMode::automatic && on_terminal());
  if (live)
    sinks_.push_back(std::make_unique<LiveProgress>(logger()));
  else
    sinks_.push_back(std::make_unique<ColumnLog>(logger(), run.log_every));
}

void MetricSinks::step(const StepMetrics& metrics) {
  for (const auto& sink : sinks_) sink->step(metrics);
}

void MetricSinks::evaluation(const EvalMetrics& metrics) {
  for (const auto& sink : sinks_) sink->evaluation(metrics);
}

}  // namespace fathom::train
