#include "train/token_costs.h"

#include <algorithm>
#include <filesystem>

#include "train/operation_counts.h"
#include "train/pair_source.h"
#include "train/trained_parts.h"

namespace fathom::train {

double block_multiply_adds(const model::ModelSpec& spec) {
  const std::int64_t q = spec.heads * spec.head_dim, kv = spec.kv_heads * spec.head_dim;
  return static_cast<double>(spec.hidden * (q + 2 * kv) + q * spec.hidden +
                             spec.hidden * spec.ffn * (spec.gated ? 3 : 2));
}

double head_multiply_adds(const model::ModelSpec& spec) {
  return static_cast<double>(spec.vocab * spec.embed_dim);
}

pipeline::DepthCosts TokenCosts::student() const {
  pipeline::DepthCosts costs{.layers = {}, .head = (1 + head_backward) * student_head};
  for (const double passes : backward) costs.layers.push_back((1 + passes) * student_block);
  return costs;
}

pipeline::DepthCosts TokenCosts::teacher(std::int64_t layers) const {
  return {.layers = std::vector<double>(static_cast<std::size_t>(layers), teacher_block),
          .head = teacher_head};
}

TokenCosts token_costs(const TrainConfig& config, const EnginePlan& plan) {
  TokenCosts costs;
  // FDD takes every token through the heads at each of its key layers.
  const auto dynamics = static_cast<double>(plan.fdd_layers.size());
  const double votes = head_products(config, plan);
  costs.student_block = block_multiply_adds(plan.student);
  costs.student_head = (votes * plan.label_share + dynamics) * head_multiply_adds(plan.student);
  if (plan.teacher) {
    const double rate = config.teacher.dtype == DType::bf16 ? 0.5 : 1;
    costs.teacher_block = rate * block_multiply_adds(*plan.teacher);
    costs.teacher_head = rate * (plan.label_share + dynamics) * head_multiply_adds(*plan.teacher);
  }
  const TrainedParts parts = trained_parts(config, plan);
  for (std::int64_t layer = 0; layer < plan.student.layers; ++layer)
    costs.backward.push_back(parts.backward_passes(layer));
  costs.head_backward = parts.head ? 2 : 1;  // a frozen one needs no gradient of its own
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
