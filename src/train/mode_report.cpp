#include "train/mode_report.h"

#include <cstdio>

#include "methods/adapters/tensors.h"
#include "train/metrics/format.h"
#include "train/mode_transport.h"
#include "train/operation_counts.h"

namespace fathom::train {
namespace {

std::string percent(double part, double whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g %%", 100 * part / whole);
  return text;
}

std::string bytes(double value) {
  return format_bytes(static_cast<std::int64_t>(value));
}

std::string gflop(double flops) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g GFLOP", flops / 1e9);
  return text;
}

// What else is trained beside a frozen model.
double adapted_parameters(const EnginePlan& plan) {
  const auto width = static_cast<double>(plan.student.hidden);
  const auto layers = static_cast<double>(plan.student.layers);
  if (plan.moc.enabled)
    return (2.0 * plan.moc.rank * plan.moc.site_count() + plan.moc.gate_count()) * width * layers;
  double sum = 0;
  for (const auto& tensor : methods::adapters::tensors(plan.adapter, plan.student))
    if (tensor.trained) sum += static_cast<double>(tensor.shape.elements());
  return sum;
}

}  // namespace

std::string mode_parameters(const EnginePlan& plan) {
  const auto size = methods::mode::size_of(*plan.mode, plan.student);
  const auto added = static_cast<double>(size.added);
  std::string text = str(
      "mode: the last ", plan.mode->k, " layers vote with ", size.added,
      " parameters of their own, ", size.trained, " trained with the final norm: ",
      percent(added, static_cast<double>(plan.student.parameters())), " of the model's parameters");
  if (const double adapted = adapted_parameters(plan); adapted > 0)
    text += str(", ", percent(added, adapted), " of the ", static_cast<std::int64_t>(adapted),
                " that the ", plan.moc.enabled ? "controls" : "adapter", " trains");
  return text;
}

std::string mode_transport_text(const TrainConfig& config, const EnginePlan& plan) {
  const ModeTransport cost = mode_transport(config, plan);
  const int products = head_products(config, plan);
  std::string text =
      str("mode: the head's products take ", gflop(cost.head_flops), " forward on stage ",
          config.grid.pp - 1, ", for ", products, " layer(s)\n");
  if (cost.mixture_bytes == 0) return text;
  const std::string states = bytes(cost.state_bytes), sum = bytes(cost.mixture_bytes);
  if (plan.vote_transport == methods::mode::Transport::mixture)
    return text + str("mode: a running sum of late layers and their weights travel, ", sum,
                      " a micro-batch forward over all boundaries; late states would be ", states,
                      "\n");
  text += str("mode: late states travel, ", states, " a micro-batch forward over all boundaries");
  if (products > 1)
    text += str("; vocabulary work where they are would move ", bytes(cost.logit_bytes),
                " of the last layer's logits back, hold ", bytes(cost.head_bytes),
                " more of heads, and take ", gflop(cost.early_flops), " off the last stage");
  else
    text += str("; a running sum would move ", sum);
  return text + str(": not done, for ", states_needed(config, plan), "\n");
}

}  // namespace fathom::train
