#pragma once

#include <filesystem>
#include <fstream>
#include <optional>

#include "train/metrics/step_metrics.h"

namespace fathom::tensorboard {
class Event;
}

namespace fathom::train {

/// A TensorBoard event file (events.out.tfevents.*) with one scalar a tag: loss/total, loss/NAME,
/// train/grad_norm, train/lr, train/tokens_per_s, train/peak_share, train/memory_gib, train/NAME,
/// eval/loss, eval/perplexity, eval/accuracy.
class TensorboardSink : public MetricSink {
 public:
  /// Starts a new file in `folder`, which is made. Its first events tell TensorBoard to drop what
  /// earlier files of the folder hold beyond `resumed_step`; without it, all they hold. Throws
  /// Error(io) naming the file.
  TensorboardSink(const std::filesystem::path& folder, std::optional<std::int64_t> resumed_step);

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvalMetrics& metrics) override;

  const std::filesystem::path& path() const { return path_; }

 private:
  void write(tensorboard::Event& event, std::int64_t step);

  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace fathom::train
