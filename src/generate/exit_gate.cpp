#include "generate/exit_gate.h"

namespace fathom::generate {
namespace {

// A tensor of the last stage on all of them.
Tensor from_last(const model::Stage& stage, comm::Communicator& pp, const Tensor& source,
                 Shape shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  if (stage.plan().has_head) values = to_host(source);
  pp.broadcast(values.data(), values.size() * sizeof(float), pp.size() - 1);
  return Tensor::from_host(stage.device(), shape, values);
}

}  // namespace

void keep_until(std::span<float> weights, double share) {
  if (share >= 1) return;
  double sum = 0;
  std::size_t kept = 0;
  while (kept < weights.size() && sum < share) sum += weights[kept++];
  for (std::size_t j = 0; j < weights.size(); ++j)
    weights[j] = j < kept ? static_cast<float>(weights[j] / sum) : 0.0f;
}

std::int64_t depth_of(std::span<const float> weights) {
  std::size_t depth = weights.size();
  while (depth > 1 && weights[depth - 1] == 0) --depth;
  return static_cast<std::int64_t>(depth);
}

ExitGate::ExitGate(const ExitOptions& options, const methods::mode::LateVote& vote,
                   const model::Stage& stage, comm::Communicator& pp)
    : options_(options),
      kept_(options.policy == ExitPolicy::topk ? options.topk : vote.spec().kept()),
      spec_(vote.spec()),
      norm_eps_(stage.spec().norm_eps),
      tp_(stage.tp()),
      router_{autograd::Var(from_last(stage, pp, vote.router().weight.value,
                                      {vote.spec().k, stage.spec().hidden})),
              autograd::Var(from_last(stage, pp, vote.router().bias.value, {vote.spec().k}))} {}

std::vector<float> ExitGate::weigh(const Tensor& states) const {
  const autograd::Var weights =
      methods::mode::route(nullptr, spec_, norm_eps_, router_, autograd::Var(states), kept_);
  std::vector<float> values = to_host(weights.value);
  const auto k = static_cast<std::size_t>(spec_.k);
  if (options_.policy == ExitPolicy::threshold)
    for (std::size_t at = 0; at < values.size(); at += k)
      keep_until(std::span(values).subspan(at, k), options_.threshold);
  if (tp_ != nullptr && tp_->size() > 1)
    tp_->broadcast(values.data(), values.size() * sizeof(float), 0);
  return values;
}

}  // namespace fathom::generate
