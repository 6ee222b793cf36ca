#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "generate/generator.h"
#include "model/head.h"

/// Early exits by their definition, on a whole sequence at once and without a cache.
namespace fathom::generate::exits {

using Doubles = std::vector<double>;

/// The weights of the late layers that decide on a token, from its scores.
inline Doubles kept_weights(const Doubles& scores, const ExitOptions& options) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  if (options.policy == ExitPolicy::topk) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    order.resize(static_cast<std::size_t>(options.topk));
  } else if (options.policy == ExitPolicy::threshold && options.threshold < 1) {
    double all = 0, sum = 0;
    for (const double s : scores) all += std::exp(s);
    std::size_t kept = 0;
    while (kept < scores.size() && sum / all < options.threshold) sum += std::exp(scores[kept++]);
    order.resize(kept);
  }
  Doubles weights(scores.size(), 0.0);
  double sum = 0;
  for (const std::size_t j : order) sum += weights[j] = std::exp(scores[j]);
  for (double& w : weights) w /= sum;
  return weights;
}

/// A state as the router reads it.
inline Doubles router_input(Doubles state, const methods::mode::ModeSpec& spec, double eps) {
  if (spec.router_input == methods::mode::RouterInput::raw) return state;
  const double squares = std::inner_product(state.begin(), state.end(), state.begin(), 0.0);
  for (double& x : state) x /= std::sqrt(squares / static_cast<double>(state.size()) + eps);
  return state;
}

/// What the definition gives for every position of a sequence.
struct Reference {
  std::vector<Doubles> logprobs;     ///< [T][vocab] of the next token
  std::vector<std::int64_t> depths;  ///< [T] late layers, the deepest that decides
};

inline model::Pass pass_over(const model::Stage& stage, const std::vector<std::int32_t>& ids) {
  auto rows = std::make_shared<autograd::TokenRows>();
  std::vector<std::int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  const Shape shape{static_cast<std::int64_t>(ids.size())};
  rows->ids = Tensor::from_host(stage.device(), shape, std::span<const std::int32_t>(ids));
  rows->positions =
      Tensor::from_host(stage.device(), shape, std::span<const std::int32_t>(positions));
  rows->starts = {0, static_cast<std::int32_t>(ids.size())};
  model::Pass pass;
  pass.rows = rows;
  return pass;
}

inline std::vector<Doubles> matrix_of(const Tensor& x) {
  const std::vector<float> values = to_host(x);
  const auto width = static_cast<std::size_t>(x.columns());
  std::vector<Doubles> rows;
  for (std::size_t at = 0; at < values.size(); at += width)
    rows.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(at),
                      values.begin() + static_cast<std::ptrdiff_t>(at + width));
  return rows;
}

/// `whole` holds the whole model. Prompts run through all layers. With ExitCache::copy a token that
/// has left stays as it was, so that blocks above make keys and values of its last state.
inline Reference reference(const model::Stage& whole, const methods::mode::LateVote& vote,
                           const ExitOptions& options, const std::vector<std::int32_t>& ids,
                           std::size_t prompt) {
  const model::Pass pass = pass_over(whole, ids);
  const std::int64_t gate = vote.gate_layer(), layers = whole.spec().layers;
  autograd::Var x = whole.run_blocks(pass, whole.embed(pass), 0, gate);
  const methods::mode::ModeSpec& spec = vote.spec();
  std::vector<Doubles> router(static_cast<std::size_t>(spec.k));
  std::vector<float> bias(router.size(), 0.0f);  // equal scores where nothing routes
  if (spec.routed()) {
    router = matrix_of(vote.router().weight.value);
    bias = to_host(vote.router().bias.value);
  }
  std::vector<Doubles> weights;
  Reference result;
  for (const Doubles& state : matrix_of(x.value)) {
    const Doubles h = router_input(state, spec, whole.spec().norm_eps);
    Doubles scores;
    for (std::size_t j = 0; j < router.size(); ++j)
      scores.push_back(
          std::inner_product(router[j].begin(), router[j].end(), h.begin(), double{bias[j]}));
    weights.push_back(kept_weights(scores, options));
    std::size_t depth = scores.size();
    while (weights.back()[depth - 1] == 0) --depth;
    result.depths.push_back(static_cast<std::int64_t>(depth));
  }
  result.logprobs.assign(ids.size(), Doubles(static_cast<std::size_t>(whole.spec().vocab), 0.0));
  for (std::int64_t layer = gate; layer < layers; ++layer) {
    const std::vector<float> before = to_host(x.value);
    x = whole.run_blocks(pass, x, layer, layer + 1);
    std::vector<float> after = to_host(x.value);
    const auto width = static_cast<std::size_t>(x.value.columns());
    if (options.cache == ExitCache::copy)
      for (std::size_t t = prompt; t < ids.size(); ++t)
        if (layer >= gate + result.depths[t])
          std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(t * width), width,
                      after.begin() + static_cast<std::ptrdiff_t>(t * width));
    x = autograd::Var(Tensor::from_host(whole.device(), x.value.shape(), after));
    model::for_each_logits(whole, vote.expert(whole, {}, layer + 1, x).value, x.value.rows(),
                           [&](std::int64_t, std::int64_t, const std::vector<float>& logits) {
                             for (std::size_t t = 0; t < ids.size(); ++t)
                               for (std::size_t v = 0; v < result.logprobs[t].size(); ++v)
                                 result.logprobs[t][v] +=
                                     weights[t][static_cast<std::size_t>(layer - gate)] *
                                     logits[t * result.logprobs[t].size() + v];
                           });
  }
  for (Doubles& row : result.logprobs) {
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit);
    for (double& logit : row) logit -= std::log(sum);
  }
  return result;
}

}  // namespace fathom::generate::exits
