#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/optimizer.h"

namespace fathom::train {

Optimizer::Optimizer(Device& device, const OptimConfig& config, model::ParameterSet& parameters)
    : config_(config), parameters_(parameters) {
  if (!parameters.gradients().defined()) return;
  const Shape shape = parameters.gradients().shape();
  first_ = Tensor::empty(device, shape);
  second_ = Tensor::empty(device, shape);
  kernels::fill(first_, 0.0f);
  kernels::fill(second_, 0.0f);
}

Tensor Optimizer::part(const Tensor& flat, const model::Parameter& parameter) const {
  return flat.slice_rows(parameter.flat_offset, parameter.value.elements())
      .view(parameter.value.shape());
}

Tensor Optimizer::first_moment(const model::Parameter& parameter) const {
  return part(first_, parameter);
}
Tensor Optimizer::second_moment(const model::Parameter& parameter) const {
  return part(second_, parameter);
}

double Optimizer::gradient_norm(comm::ProcessGrid& grid) const {
  std::vector<Tensor> gradients;
  for (const model::Parameter& parameter : parameters_.parameters())
    if (parameter.trainable() && parameter.owned) gradients.push_back(parameter.grad());
  double sum = kernels::sum_of_squares(gradients);
  grid.tp().all_reduce(&sum, 1, comm::ReduceOp::sum);
  grid.pp().all_reduce(&sum, 1, comm::ReduceOp::sum);
  return std::sqrt(sum);
}

bool Optimizer::decays(const model::Parameter& parameter) const {
  return parameter.decay && (config_.decay == Decay::all || parameter.matrix);
}

void Optimizer::step(double lr, double gradient_scale) {
  ++steps_;
  kernels::AdamW update{.lr = static_cast<float>(lr),
                        .beta1 = static_cast<float>(config_.beta1),
                        .beta2 = static_cast<float>(config_.beta2),
                        .eps = static_cast<float>(config_.eps),
                        .gradient_scale = static_cast<float>(gradient_scale)};
  const auto count = static_cast<double>(steps_);
  update.correction1 = static_cast<float>(1 - std::pow(config_.beta1, count));
  update.correction2 = static_cast<float>(1 - std::pow(config_.beta2, count));
  for (const model::Parameter& parameter : parameters_.parameters()) {
    if (!parameter.trainable()) continue;
    update.lr = static_cast<float>(lr * parameter.lr_scale);
    update.weight_decay = decays(parameter) ? static_cast<float>(config_.weight_decay) : 0.0f;
    kernels::adamw(update, parameter.value, parameter.grad(), first_moment(parameter),
                   second_moment(parameter));
  }
}

void Optimizer::clear_gradients() {
  if (parameters_.gradients().defined()) kernels::fill(parameters_.gradients(), 0.0f);
}

double clip_factor(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

}  // namespace fathom::train
