#include "diagnose/moc/routing_term.h"

#include <algorithm>
#include <cmath>

#include "diagnose/moc/symmetric_eigen.h"

namespace fathom::diagnose::moc {
namespace {

using methods::moc::Choice;

// Row j: the gradient of weight j with respect to the mean state, [K, hidden].
Matrix weight_gradients(const methods::moc::Spec& spec, const Choice& choice,
                        const std::vector<float>& gate, std::int64_t hidden) {
  const auto k = static_cast<std::int64_t>(choice.experts.size());
  const auto experts = static_cast<std::int64_t>(choice.softmax.size());
  Matrix result(k, hidden);
  for (std::int64_t j = 0; j < k; ++j) {
    std::vector<double> one(choice.experts.size(), 0.0);
    one[static_cast<std::size_t>(j)] = 1;
    const std::vector<double> scores = methods::routing::score_gradient(spec.softmax, choice, one);
    for (std::int64_t c = 0; c < hidden; ++c)
      for (std::int64_t e = 0; e < experts; ++e)
        result.at(j, c) += static_cast<double>(gate[static_cast<std::size_t>(c * experts + e)]) *
                           scores[static_cast<std::size_t>(e)];
  }
  return result;
}

}  // namespace

double routing_term(const Subject& subject, const Passage& passage, const SiteCall& call) {
  const methods::moc::Spec* spec = subject.moc();
  if (spec == nullptr || call.inner == nullptr) return 0;
  const std::int64_t hidden = subject.model().hidden;
  const std::vector<float> gate = to_host(subject.gate(call.site).value);
  // Each group's j-th expert alone, on all tokens.
  std::vector<std::vector<float>> controls;
  for (std::size_t j = 0; j < static_cast<std::size_t>(spec->top_k); ++j)
    controls.push_back(to_host(subject.chosen(passage, call, call.state.value, j)));
  double largest = 0;
  const auto& groups = passage.decisions.at(call.index())->groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t first = passage.groups->starts[g] * hidden,
                       count = passage.groups->starts[g + 1] * hidden - first;
    Matrix outputs(count, spec->top_k);
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = 0; j < spec->top_k; ++j)
        outputs.at(i, j) = static_cast<double>(
            controls[static_cast<std::size_t>(j)][static_cast<std::size_t>(first + i)]);
    const Matrix gradients = weight_gradients(*spec, groups[g], gate, hidden);
    largest = std::max(largest, singular_values_of_product(outputs, gradients).front() /
                                    std::sqrt(passage.groups->counted[g]));
  }
  return (1 - spec->alpha) * largest;
}

}  // namespace fathom::diagnose::moc
