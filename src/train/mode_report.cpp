#include "train/mode_report.h"

#include <cstdio>

#include "methods/adapters/tensors.h"
#include "train/metrics/format.h"
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

bool distils(const TrainConfig& config, const EnginePlan& plan) {
  return head_products(config, plan) > 1;
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

ModeTransport mode_transport(const TrainConfig& config, const EnginePlan& plan) {
  const auto site = methods::mode::LateVote(*plan.mode, plan.student).site();
  const StateRoutes routes(plan.student_layers, nullptr, {site});
  const double tokens =
      static_cast<double>(config.batch.micro_batch) * static_cast<double>(plan.context);
  const auto width = static_cast<double>(plan.student.hidden);
  const double vocab = static_cast<double>(plan.loss_vocab) / config.grid.tp;
  const double head = vocab * static_cast<double>(plan.student.embed_dim);
  const int last = config.grid.pp - 1, k = plan.mode->k;
  ModeTransport cost;
  for (const StateRoute& route : routes.routes())
    cost.state_bytes += 4 * tokens * width * (route.to - route.from);
  const std::int64_t first = plan.student.layers - k;  // counted from 0: the first that votes
  for (int stage = 0; stage < last; ++stage)
    if (plan.student_layers.end(stage) > first)
      cost.mixture_bytes += 4 * tokens * (width + (plan.mode->routed() ? k : 0));
  cost.head_flops = 2 * tokens * head * head_products(config, plan);
  if (!distils(config, plan)) return cost;
  for (int stage = 0; stage < last; ++stage) {
    const std::int64_t late = plan.student_layers.end(stage) -
                              std::max<std::int64_t>(first, plan.student_layers.begin(stage));
    if (late <= 0) continue;
    cost.early_flops += 2 * tokens * head * static_cast<double>(late);
    cost.head_bytes += 4 * head;
    cost.logit_bytes += 4 * tokens * vocab * (last - stage);
  }
  return cost;
}

std::string mode_transport_text(const TrainConfig& config, const EnginePlan& plan) {
  const ModeTransport cost = mode_transport(config, plan);
  std::string text =
      str("mode: the head's products take ", gflop(cost.head_flops), " forward on stage ",
          config.grid.pp - 1, ", for ", head_products(config, plan), " layer(s)\n");
  if (cost.mixture_bytes == 0) return text;
  text += str("mode: late states travel, ", bytes(cost.state_bytes),
              " a micro-batch forward over all boundaries");
  if (distils(config, plan))
    return text + str("; vocabulary work where they are would move ", bytes(cost.logit_bytes),
                      " of the last layer's logits back, hold ", bytes(cost.head_bytes),
                      " more of heads, and take ", gflop(cost.early_flops),
                      " off the last stage: not done, for each layer's divergence needs the last "
                      "layer's logits, which would have to come before any backward pass could "
                      "begin\n");
  return text + str("; a running mixture would move ", bytes(cost.mixture_bytes),
                    ": not done, for it would spread the router and the norms over stages to save "
                    "what the layers' own products hide\n");
}

}  // namespace fathom::train
