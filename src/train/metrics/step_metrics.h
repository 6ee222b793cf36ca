#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What one step or one evaluation measured, as plain values, and who is told.
namespace fathom::train {

struct NamedValue {
  std::string name;
  double value = 0.0;
};

/// One optimizer step; all numbers are those of the whole job, the same on every rank.
struct StepMetrics {
  std::int64_t step = 0;   ///< steps done, this one included: the first is 1
  std::int64_t steps = 0;  ///< of the whole run
  double loss = 0.0;
  std::vector<NamedValue> parts;  ///< terms of the loss; the same names at every step
  double grad_norm = 0.0;         ///< before clipping
  double lr = 0.0;
  std::int64_t tokens = 0;  ///< that went through the model in this step
  double seconds = 0.0;
  double tokens_per_s = 0.0;
  std::optional<double> peak_share;   ///< of the measured GEMM peak, 0 to 1
  std::int64_t memory_bytes = 0;      ///< peak of the rank that uses most
  std::vector<NamedValue> more = {};  ///< anything else: counts of left-out samples, bytes sent
  std::string remark = {};            ///< for the console: what is special about the step's text
};

/// One pass over the evaluation set, after `step` steps.
struct EvalMetrics {
  std::int64_t step = 0;
  double loss = 0.0;
  double perplexity = 0.0;
  double accuracy = 0.0;  ///< share of tokens that were the most likely one
  std::int64_t tokens = 0;
  double seconds = 0.0;
};

/// A place where metrics go. Held by one rank. Each call throws Error(io) when it cannot write.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  virtual void step(const StepMetrics& metrics) = 0;
  virtual void evaluation(const EvalMetrics& metrics) = 0;
};

}  // namespace fathom::train
