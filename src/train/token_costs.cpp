#include "train/token_costs.h"

#include <algorithm>
#include <filesystem>

#include "train/pair_source.h"

namespace fathom::train {

double block_multiply_adds(const model::ModelSpec& spec) {
  const std::int64_t q = spec.heads * spec.head_dim, kv = spec.kv_heads * spec.head_dim;
  return static_cast<double>(spec.hidden * (q + 2 * kv) + q * spec.hidden +
                             spec.hidden * spec.ffn * (spec.gated ? 3 : 2));
}

double head_multiply_adds(const model::ModelSpec& spec) {
  return static_cast<double>(spec.vocab * spec.embed_dim);
}

namespace {

pipeline::DepthCosts along_depth(std::int64_t layers, double block, double head) {
  return {.layers = std::vector<double>(static_cast<std::size_t>(layers), block), .head = head};
}

}  // namespace

pipeline::DepthCosts TokenCosts::student(std::int64_t layers) const {
  return along_depth(layers, (1 + backward) * student_block, (1 + backward) * student_head);
}

pipeline::DepthCosts TokenCosts::teacher(std::int64_t layers) const {
  return along_depth(layers, teacher_block, teacher_head);
}

TokenCosts token_costs(const TrainConfig& config, const EnginePlan& plan) {
  TokenCosts costs;
  // FDD takes every token through the heads at each of its key layers.
  const auto dynamics = static_cast<double>(plan.fdd_layers.size());
  const bool distils_votes = plan.mode && config.mode.lambda > 0;
  const double votes = distils_votes ? plan.mode->k : 1;
  costs.student_block = block_multiply_adds(plan.student);
  costs.student_head = (votes * plan.label_share + dynamics) * head_multiply_adds(plan.student);
  if (plan.teacher) {
    const double rate = config.teacher.dtype == DType::bf16 ? 0.5 : 1;
    costs.teacher_block = rate * block_multiply_adds(*plan.teacher);
    costs.teacher_head = rate * (plan.label_share + dynamics) * head_multiply_adds(*plan.teacher);
  }
  // Frozen weights need no gradient of their own.
  const bool adapted = plan.adapter.kind != methods::adapters::Kind::none || plan.moc.enabled;
  costs.backward = adapted ? 1 : 2;
  return costs;
}

double label_share(const TrainConfig& config) {
  constexpr double kUnknown = 0.5;
  const std::filesystem::path path = config.distill.method == DistillMethod::contrastive
                                         ? pair_files(config.distill.pairs).chosen
                                         : std::filesystem::path(config.data.train);
  if (path.empty()) return 1;
  if (!std::filesystem::exists(path)) return kUnknown;
  const auto file = data::TokenFile::open(path, data::TokenFile::Check::index);
  double tokens = 0, labels = 0;
  for (std::int64_t r = 0; r < file.records(); ++r) {
    const auto inputs = static_cast<double>(file.length(r) - 1);
    tokens += inputs;
    labels += inputs - std::max(file.prompt_length(r), 1) + 1;
  }
  return labels / tokens;
}

}  // namespace fathom::train
