#pragma once

#include <filesystem>
#include <fstream>
#include <optional>

#include "train/metrics/step_metrics.h"

namespace fathom::train {

/// One JSON object a line: {"kind": "step", ...} for every step, {"kind": "eval", ...} for every
/// evaluation. A line is on its way to the disk when the call returns. NaN is written as null.
class JsonlSink : public MetricSink {
 public:
  /// Without `resumed_step` the file starts anew. With it, lines of later steps, and a last line
  /// that was cut off, are removed, so that a resumed run leaves the file that an unbroken one
  /// would have. Throws Error(io) naming the file, Error(data) for a line that is not ours.
  JsonlSink(const std::filesystem::path& path, std::optional<std::int64_t> resumed_step);

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvalMetrics& metrics) override;

 private:
  void write(const std::string& line);

  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace fathom::train
