#include "kernels/elementwise.h"
#include "kernels/gate.h"
#include "methods/moc/operations.h"

namespace fathom::methods::moc {
namespace {

using autograd::Tape;
using autograd::Var;
using kernels::Trans;

std::shared_ptr<const Decision> decide(const Spec& spec, const Groups& groups, int experts,
                                       const std::vector<float>& sums) {
  auto decision = std::make_shared<Decision>();
  decision->picks.assign(static_cast<std::size_t>(experts), 0.0);
  decision->probs.assign(static_cast<std::size_t>(experts), 0.0);
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    const float* scores = sums.data() + g * 3 * experts;
    const float *probs = scores + experts, *picks = probs + experts;
    decision->groups.push_back(
        choose(spec, experts, {scores, probs, picks, groups.counted[static_cast<std::size_t>(g)]}));
    for (int i = 0; i < experts; ++i) {
      decision->picks[static_cast<std::size_t>(i)] += static_cast<double>(picks[i]);
      decision->probs[static_cast<std::size_t>(i)] += static_cast<double>(probs[i]);
    }
  }
  return decision;
}

Tensor upload_weights(Device& device, const Decision& decision) {
  std::vector<float> weights;
  for (const Choice& choice : decision.groups)
    weights.insert(weights.end(), choice.weights.begin(), choice.weights.end());
  const auto groups = static_cast<std::int64_t>(decision.groups.size());
  return Tensor::from_host(device, {groups, static_cast<std::int64_t>(weights.size()) / groups},
                           weights);
}

// The gradient of each group's sums of scores, [groups, L], from that of its weights.
Tensor score_sum_gradient(Device& device, const Spec& spec, const Groups& groups,
                          const Decision& decision, const Tensor& dweights) {
  const std::vector<float> given = dweights.defined() ? to_host(dweights) : std::vector<float>();
  std::vector<float> result;
  for (std::size_t g = 0; g < decision.groups.size(); ++g) {
    const Choice& choice = decision.groups[g];
    const std::size_t k = choice.experts.size();
    std::vector<double> own(k, 0.0);
    if (!given.empty())
      for (std::size_t j = 0; j < k; ++j) own[j] = static_cast<double>(given[g * k + j]);
    for (const double gradient : score_gradient(spec.softmax, choice, own))
      result.push_back(static_cast<float>(gradient / groups.counted[g]));
  }
  const std::int64_t experts = static_cast<std::int64_t>(result.size()) / groups.size();
  return Tensor::from_host(device, {groups.size(), experts}, result);
}

}  // namespace

Routed route(Tape* tape, const Spec& spec, const Var& x, const Var& gate, const Groups& groups,
             comm::Communicator* tp, const BalanceGradient& balance,
             std::shared_ptr<const Decision> replay) {
  Device& device = x.value.device();
  const std::int64_t n = x.value.rows(), experts = gate.value.columns();
  FATHOM_CHECK(groups.rows() == n, "groups of ", groups.rows(), " rows for ", n);
  const Tensor probs = Tensor::empty(device, {n, experts});
  {
    const Tensor scores = Tensor::empty(device, {n, experts}),
                 picks = Tensor::empty(device, {n, experts});
    kernels::gemm(x.value, Trans::no, gate.value, Trans::no, scores);
    kernels::gate_tokens(scores, groups.counted_rows, spec.top_k, probs, picks);
    if (!replay) {
      const Tensor sums = Tensor::empty(device, {groups.size(), 3 * experts});
      kernels::gate_sums(scores, probs, picks, groups.counted_rows, groups.device_starts, sums);
      std::vector<float> values = to_host(sums);
      // The states agree on all tensor ranks; one rounding that did not would split the model.
      if (tp != nullptr) tp->broadcast(values.data(), values.size() * sizeof(float), 0);
      replay = decide(spec, groups, static_cast<int>(experts), values);
    }
  }
  Routed routed{replay, Var(upload_weights(device, *replay))};
  routed.weights.slot = autograd::result_slot(tape, {&x, &gate});
  if (!routed.weights.needs_grad()) return routed;
  const autograd::Remake remake = gate.slot ? x.remake : autograd::Remake();
  const Tensor kept = gate.slot && !remake ? x.value : Tensor();
  tape->record("gate", {kept, probs},
               [=, decision = replay, slot = routed.weights.slot, x_slot = x.slot,
                x_shape = x.value.shape()] {
                 Tensor dprobs;
                 if (balance.slot && balance.slot->grad().defined())
                   dprobs = balance.slot->grad().slice_columns(balance.first_column, experts);
                 const Tensor dweights = slot->take();
                 if (!dweights.defined() && !dprobs.defined()) return;
                 Device& on = probs.device();
                 const Tensor dscores = Tensor::empty(on, {n, experts});
                 kernels::gate_backward(probs, groups.counted_rows, groups.group_of_row,
                                        score_sum_gradient(on, spec, groups, *decision, dweights),
                                        dprobs, dscores);
                 if (gate.slot)
                   kernels::gemm(remake ? remake() : kept, Trans::yes, dscores, Trans::no,
                                 gate.slot->sum_target(on, gate.value.shape()), 1.0f, 1.0f);
                 if (!x_slot) return;
                 const auto dx = x_slot->target(on, x_shape);
                 kernels::gemm(dscores, Trans::no, gate.value, Trans::yes, dx.tensor, 1.0f,
                               dx.accumulate ? 1.0f : 0.0f);
               });
  return routed;
}

}  // namespace fathom::methods::moc
