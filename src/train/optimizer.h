#pragma once

#include <functional>

#include "comm/process_grid.h"
#include "model/parameters.h"
#include "train/config.h"

namespace fathom::train {

/// AdamW on a rank's parameters. Moments live in the parameter's own coordinates, so that a
/// checkpoint of them can be read by any grid.
class Optimizer {
 public:
  Optimizer(Device& device, const OptimConfig& config, model::ParameterSet& parameters);

  /// L2 norm of all gradients of the model, each parameter counted by its owner. Collective over
  /// the tensor and pipeline groups; the same number on every rank.
  double gradient_norm(comm::ProcessGrid& grid) const;

  /// One update at learning rate lr with gradients scaled by `gradient_scale`; gradients are zero
  /// afterwards. Counts the step.
  void step(double lr, double gradient_scale);

  /// Sets gradients to zero without an update.
  void clear_gradients();

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

  /// The moments of a trainable parameter, of its local shape.
  Tensor first_moment(const model::Parameter& parameter) const;
  Tensor second_moment(const model::Parameter& parameter) const;

 private:
  bool decays(const model::Parameter& parameter) const;
  Tensor part(const Tensor& flat, const model::Parameter& parameter) const;

  OptimConfig config_;
  model::ParameterSet& parameters_;
  Tensor first_, second_;  // laid out as ParameterSet::gradients()
  std::int64_t steps_ = 0;
};

/// The factor that brings a gradient of this norm down to `clip` (0 = no limit):
/// min(1, clip / (norm + 1e-6)).
double clip_factor(double norm, double clip);

}  // namespace fathom::train
