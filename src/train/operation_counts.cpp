#include "train/operation_counts.h"

#include "kernels/gemm.h"
#include "methods/adapters/targets.h"
#include "train/token_costs.h"
#include "train/trained_parts.h"

namespace fathom::train {
namespace {

using methods::adapters::Kind;

// The linear layers of a layer that have an adapter.
std::vector<methods::adapters::Module> adapted_modules(const EnginePlan& plan, std::int64_t layer) {
  std::vector<methods::adapters::Module> modules;
  if (!plan.adapter.on_linear_layers()) return modules;
  for (auto& module : methods::adapters::linear_modules(plan.student))
    if (module.layer == layer && methods::adapters::targets(plan.adapter, module.name, layer))
      modules.push_back(std::move(module));
  return modules;
}

int control_sites(const EnginePlan& plan, std::int64_t layer) {
  if (plan.adapter.kind != Kind::parallel_control ||
      !methods::adapters::covers_layer(plan.adapter, layer))
    return 0;
  return plan.adapter.sites == methods::adapters::Sites::both ? 2 : 1;
}

// What an adapter keeps, and the inputs of frozen matrices that it needs and no norm or activation
// makes again.
double adapter_keeps(const EnginePlan& plan, const GridConfig& grid, bool remade,
                     std::int64_t layer) {
  const model::ModelSpec& spec = plan.student;
  const auto r = static_cast<double>(plan.adapter.rank);
  double kept = r * control_sites(plan, layer), attention_in = 0, mlp_in = 0, activated = 0;
  const auto& modules = adapted_modules(plan, layer);
  const auto all = methods::adapters::linear_modules(plan.student);
  const std::size_t per_layer = all.size() / static_cast<std::size_t>(spec.layers);
  const std::size_t first = per_layer * static_cast<std::size_t>(layer);
  for (const auto& module : modules) {
    std::size_t at = 0;  // among the layer's linear layers
    while (all[first + at].name != module.name) ++at;
    const bool mlp_out = at + 1 == per_layer;
    const std::size_t attention_out = per_layer - (spec.gated ? 4 : 3);
    const bool row_split = mlp_out || at == attention_out;
    kept += r;
    if (plan.adapter.kind == Kind::dora)
      kept += static_cast<double>(module.outputs) / (row_split ? 1 : grid.tp);
    if (plan.adapter.kind == Kind::vera || remade) continue;
    if (mlp_out)
      activated = static_cast<double>(spec.ffn) / grid.tp;
    else if (at < attention_out)
      attention_in = static_cast<double>(spec.hidden);
    else if (!row_split)
      mlp_in = static_cast<double>(spec.hidden);
  }
  return kept + attention_in + mlp_in + activated;
}

}  // namespace

double added_multiply_adds(const EnginePlan& plan, std::int64_t layer) {
  const auto hidden = static_cast<double>(plan.student.hidden);
  const auto layers = static_cast<double>(plan.student.layers);
  if (plan.moc.enabled)
    return plan.moc.site_count() *
           ((plan.moc.top_k + 1) * 2 * plan.moc.rank * hidden + hidden * layers);
  double sum = control_sites(plan, layer) * 2 * plan.adapter.rank * hidden;
  for (const auto& module : adapted_modules(plan, layer))
    sum += static_cast<double>(plan.adapter.rank * (module.inputs + module.outputs));
  if (plan.adapter.kind == Kind::molex)
    sum = 2 * sum + hidden * layers + block_multiply_adds(plan.student);
  return sum;
}

int head_products(const TrainConfig& config, const EnginePlan& plan) {
  return plan.mode && config.mode.lambda > 0 ? plan.mode->k : 1;
}

bool is_tuned(const EnginePlan& plan) {
  return plan.adapter.kind != Kind::none || plan.moc.enabled;
}

double step_flops(const EnginePlan& plan, const TrainConfig& config, std::int64_t tokens,
                  std::int64_t label_tokens, std::int64_t sum_of_squared_lengths) {
  const auto n = static_cast<double>(tokens), rows = static_cast<double>(label_tokens);
  const auto attention = [&](const model::ModelSpec& spec) {
    return static_cast<double>(spec.layers * spec.heads * spec.head_dim) *
           static_cast<double>(sum_of_squared_lengths);
  };
  const model::ModelSpec& student = plan.student;
  const TrainedParts parts = trained_parts(config, plan);
  const double runs = plan.adapter.kind == Kind::molex ? 2 : 1;  // of each block
  const double attention_layer = attention(student) / static_cast<double>(student.layers);
  double multiply_adds =
      rows * (parts.head ? 3 : 2) * head_products(config, plan) * head_multiply_adds(student);
  for (std::int64_t layer = 0; layer < student.layers; ++layer) {
    const bool reached = layer >= parts.first_layer;  // by gradients
    const double forward = reached && config.memory.recompute == Recompute::block ? 2 : 1;
    const double both_ways = forward + (reached ? 2 : 0);  // where both factors have gradients
    const double added =
        added_multiply_adds(plan, layer) - (runs - 1) * block_multiply_adds(student);
    multiply_adds +=
        runs * n * (forward + parts.backward_passes(layer)) * block_multiply_adds(student) +
        n * both_ways * added + runs * both_ways * attention_layer;
  }
  // Where the CPU multiplies bf16 natively, it does so at twice the f32 rate.
  const bool twice = config.teacher.dtype == DType::bf16 && kernels::native_bf16();
  if (plan.teacher)
    multiply_adds +=
        (twice ? 0.5 : 1.0) *
        (n * static_cast<double>(plan.teacher->layers) * block_multiply_adds(*plan.teacher) +
         attention(*plan.teacher) + rows * head_multiply_adds(*plan.teacher));
  return 2 * multiply_adds;
}

// The residual stream twice, the fused projection and attention's result, the feed-forward's inner
// states, and statistics of norms and attention. Matrices that are trained need their inputs: the
// normed states and the activation's result, unless these are made again.
double block_keeps(const EnginePlan& plan, const TrainConfig& config, std::int64_t layer) {
  const TrainedParts parts = trained_parts(config, plan);
  if (layer < parts.first_layer) return 0;
  const model::ModelSpec& spec = plan.student;
  const bool remade = config.memory.recompute == Recompute::cheap;
  const double hidden = static_cast<double>(spec.hidden), tp = config.grid.tp;
  const double q = static_cast<double>(spec.heads * spec.head_dim) / tp;
  const double kv = static_cast<double>(spec.kv_heads * spec.head_dim) / tp;
  const double ffn = static_cast<double>(spec.ffn) / tp;
  const double statistics = 4 + static_cast<double>(spec.heads) / tp;
  double kept = 2 * hidden + 2 * q + 2 * kv + ffn * (spec.gated ? 2 : 1) + statistics;
  const bool inputs_kept = parts.share[static_cast<std::size_t>(layer)] > 0 && !remade;
  if (!is_tuned(plan)) return inputs_kept ? kept + 2 * hidden + ffn : kept;
  if (plan.moc.enabled) {
    const double normed =
        !remade && plan.moc.gate_input == methods::moc::GateInput::rmsnorm ? hidden : 0;
    return kept + plan.moc.site_count() * ((plan.moc.top_k + 1) * plan.moc.rank +
                                           static_cast<double>(spec.layers) + normed);
  }
  kept += adapter_keeps(plan, config.grid, remade, layer);
  // Two blocks with one input, and the weights of their outputs.
  return plan.adapter.kind == Kind::molex ? 2 * kept - hidden + 2 + static_cast<double>(spec.layers)
                                          : kept;
}

double kept_per_token(const EnginePlan& plan, const TrainConfig& config, std::int64_t layer) {
  if (config.memory.recompute != Recompute::block) return block_keeps(plan, config, layer);
  return layer < trained_parts(config, plan).first_layer ? 0
                                                         : static_cast<double>(plan.student.hidden);
}

}  // namespace fathom::train
