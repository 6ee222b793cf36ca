#include "diagnose/moc/routing_term.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "diagnose/moc/symmetric_eigen.h"

namespace fathom::diagnose::moc {
namespace {

using methods::moc::Choice;

// Row j: the gradient of weight j with respect to the mean of what gates score, [K, hidden].
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

// A state x as its gate sees it, x / r: the derivative is (1 - u u^T / hidden) / r with u = x / r,
// and 1 where gates score the states themselves.
class GateView {
 public:
  GateView(methods::moc::GateInput input, const float* x, std::int64_t hidden) {
    if (input == methods::moc::GateInput::raw) return;
    double squares = 0;
    for (std::int64_t c = 0; c < hidden; ++c)
      squares += static_cast<double>(x[c]) * static_cast<double>(x[c]);
    root_ = std::sqrt(squares / static_cast<double>(hidden) + methods::moc::kGateNormEpsilon);
    for (std::int64_t c = 0; c < hidden; ++c) unit_.push_back(static_cast<double>(x[c]) / root_);
  }

  /// The derivative, which is symmetric, times row j of `gradients`.
  std::vector<double> derivative(const Matrix& gradients, std::int64_t j) const {
    std::vector<double> result;
    double along = 0;
    for (std::size_t c = 0; c < unit_.size(); ++c)
      along += unit_[c] * gradients.at(j, static_cast<std::int64_t>(c));
    along /= static_cast<double>(gradients.columns);
    for (std::int64_t c = 0; c < gradients.columns; ++c) {
      const double beside = unit_.empty() ? 0 : along * unit_[static_cast<std::size_t>(c)];
      result.push_back((gradients.at(j, c) - beside) / root_);
    }
    return result;
  }

 private:
  double root_ = 1;
  std::vector<double> unit_;  // empty: the state itself
};

// The gradient of a group's weights with respect to its states, [K, rows * hidden], from that with
// respect to the mean over the rows that count.
Matrix state_gradients(methods::moc::GateInput input, const Matrix& gradients,
                       const std::vector<float>& states, const std::vector<std::int32_t>& counted,
                       std::int64_t first, std::int64_t end) {
  const std::int64_t hidden = gradients.columns;
  Matrix result(gradients.rows, (end - first) * hidden);
  const double tokens = std::accumulate(counted.begin() + first, counted.begin() + end, 0.0);
  for (std::int64_t row = first; row < end; ++row) {
    if (counted[static_cast<std::size_t>(row)] == 0) continue;
    const GateView view(input, states.data() + row * hidden, hidden);
    for (std::int64_t j = 0; j < gradients.rows; ++j) {
      const std::vector<double> derivative = view.derivative(gradients, j);
      for (std::int64_t c = 0; c < hidden; ++c)
        result.at(j, (row - first) * hidden + c) = derivative[static_cast<std::size_t>(c)] / tokens;
    }
  }
  return result;
}

}  // namespace

double routing_term(const Subject& subject, const Passage& passage, const SiteCall& call) {
  const methods::moc::Spec* spec = subject.moc();
  if (spec == nullptr || call.inner == nullptr) return 0;
  const std::int64_t hidden = subject.model().hidden;
  const std::vector<float> gate = to_host(subject.gate(call.site).value);
  const std::vector<float> states = to_host(call.state.value);
  const std::vector<std::int32_t> counted = to_host_i32(passage.groups->counted_rows);
  // Each group's j-th expert alone, on all tokens.
  std::vector<std::vector<float>> controls;
  for (std::size_t j = 0; j < static_cast<std::size_t>(spec->top_k); ++j)
    controls.push_back(to_host(subject.chosen(passage, call, call.state.value, j)));
  double largest = 0;
  const auto& groups = passage.decisions.at(call.index())->groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t first = passage.groups->starts[g], end = passage.groups->starts[g + 1];
    Matrix outputs((end - first) * hidden, spec->top_k);
    for (std::int64_t i = 0; i < outputs.rows; ++i)
      for (std::int64_t j = 0; j < spec->top_k; ++j)
        outputs.at(i, j) = static_cast<double>(
            controls[static_cast<std::size_t>(j)][static_cast<std::size_t>(first * hidden + i)]);
    const Matrix gradients =
        state_gradients(spec->gate_input, weight_gradients(*spec, groups[g], gate, hidden), states,
                        counted, first, end);
    largest = std::max(largest, singular_values_of_product(outputs, gradients).front());
  }
  return (1 - spec->alpha) * largest;
}

}  // namespace fathom::diagnose::moc
