#include "methods/routing/decision.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fathom::methods::routing {
namespace {

Tensor upload(Device& device, const std::vector<std::int32_t>& values) {
  return Tensor::from_host(device, {static_cast<std::int64_t>(values.size())},
                           std::span<const std::int32_t>(values));
}

std::vector<double> softmax(const std::vector<double>& scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  std::vector<double> result;
  double total = 0;
  for (const double score : scores) total += result.emplace_back(std::exp(score - largest));
  for (double& value : result) value /= total;
  return result;
}

// Comparable: a NaN is below everything.
double ordered(double value) {
  return std::isnan(value) ? -INFINITY : value;
}

std::vector<int> best(const Rule& rule, const std::vector<double>& means, const GroupSums& sums) {
  std::vector<int> order(means.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int a, int b) {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    if (rule.aggregate == Aggregate::mean) return ordered(means[i]) > ordered(means[j]);
    if (sums.picks[i] != sums.picks[j]) return sums.picks[i] > sums.picks[j];
    return ordered(sums.probs[i]) > ordered(sums.probs[j]);
  };
  std::stable_sort(order.begin(), order.end(), before);
  order.resize(static_cast<std::size_t>(rule.top_k));
  return order;
}

}  // namespace

double Groups::tokens() const {
  return std::accumulate(counted.begin(), counted.end(), 0.0);
}

Groups make_groups(Device& device, const autograd::TokenRows& rows, Scope scope, Tokens tokens) {
  const std::size_t sequences = rows.starts.size() - 1;
  Groups groups;
  groups.starts =
      scope == Scope::sequence ? rows.starts : std::vector<std::int32_t>{0, rows.starts.back()};
  groups.counted.assign(groups.starts.size() - 1, 0.0);
  std::vector<std::int32_t> group_of_row, counts;
  for (std::size_t s = 0; s < sequences; ++s) {
    const std::size_t group = scope == Scope::sequence ? s : 0;
    const std::int64_t prompt_end = rows.prompts[s].first + rows.prompts[s].count;
    for (std::int32_t row = rows.starts[s]; row < rows.starts[s + 1]; ++row) {
      const bool counted = tokens == Tokens::all || row < prompt_end;
      group_of_row.push_back(static_cast<std::int32_t>(group));
      counts.push_back(counted ? 1 : 0);
      groups.counted[group] += counted ? 1 : 0;
    }
  }
  groups.device_starts = upload(device, groups.starts);
  groups.group_of_row = upload(device, group_of_row);
  groups.counted_rows = upload(device, counts);
  return groups;
}

Choice choose(const Rule& rule, int experts, const GroupSums& sums) {
  std::vector<double> means;
  for (int i = 0; i < experts; ++i) means.push_back(sums.scores[i] / sums.tokens);
  Choice choice;
  choice.experts = best(rule, means, sums);
  choice.softmax = softmax(means);
  std::vector<double> kept;
  for (const int expert : choice.experts) kept.push_back(means[static_cast<std::size_t>(expert)]);
  const std::vector<double> among_kept = softmax(kept);
  for (std::size_t j = 0; j < kept.size(); ++j) {
    const double weight = rule.softmax == SoftmaxOrder::topk_softmax
                              ? among_kept[j]
                              : choice.softmax[static_cast<std::size_t>(choice.experts[j])];
    choice.weights.push_back(static_cast<float>(weight));
  }
  return choice;
}

std::vector<double> score_gradient(SoftmaxOrder order, const Choice& choice,
                                   const std::vector<double>& dweights) {
  double mean = 0;  // of the weights' gradients under the softmax
  for (std::size_t j = 0; j < dweights.size(); ++j)
    mean += static_cast<double>(choice.weights[j]) * dweights[j];
  std::vector<double> gradient(choice.softmax.size(), 0.0);
  if (order == SoftmaxOrder::softmax_topk)
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = -choice.softmax[i] * mean;
  for (std::size_t j = 0; j < dweights.size(); ++j) {
    const double weight = static_cast<double>(choice.weights[j]);
    const auto expert = static_cast<std::size_t>(choice.experts[j]);
    gradient[expert] +=
        order == SoftmaxOrder::softmax_topk ? weight * dweights[j] : weight * (dweights[j] - mean);
  }
  return gradient;
}

}  // namespace fathom::methods::routing
