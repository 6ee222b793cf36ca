#include "methods/routing/route.h"

#include "kernels/elementwise.h"
#include "kernels/gate.h"
#include "kernels/gemm.h"

namespace fathom::methods::routing {
namespace {

using autograd::Tape;
using autograd::Var;
using kernels::Trans;

// Each group's sums, [groups, 3 L], as all deciders take them; `own` are those of this rank's rows.
struct Sums {
  std::vector<double> own, all;
  std::vector<double> tokens;  // [groups]
};

Sums agree(const Groups& groups, const Deciders& deciders, std::vector<float> values) {
  // The states agree on all tensor ranks; one rounding that did not would split the model.
  if (deciders.tp != nullptr)
    deciders.tp->broadcast(values.data(), values.size() * sizeof(float), 0);
  Sums sums{{values.begin(), values.end()}, {values.begin(), values.end()}, groups.counted};
  if (deciders.dp == nullptr) return sums;
  FATHOM_CHECK(groups.size() == 1, "replicas decide together in one group, not ", groups.size());
  deciders.dp->all_reduce(sums.all.data(), sums.all.size(), comm::ReduceOp::sum);
  deciders.dp->all_reduce(sums.tokens.data(), sums.tokens.size(), comm::ReduceOp::sum);
  return sums;
}

std::shared_ptr<const Decision> decide(const Rule& rule, int experts, const Sums& sums) {
  auto decision = std::make_shared<Decision>();
  decision->tokens = sums.tokens;
  decision->picks.assign(static_cast<std::size_t>(experts), 0.0);
  decision->probs.assign(static_cast<std::size_t>(experts), 0.0);
  const auto width = static_cast<std::size_t>(experts);
  for (std::size_t g = 0; g < sums.tokens.size(); ++g) {
    const double *all = sums.all.data() + g * 3 * width, *own = sums.own.data() + g * 3 * width;
    decision->groups.push_back(
        choose(rule, experts, {all, all + width, all + 2 * width, sums.tokens[g]}));
    for (std::size_t i = 0; i < width; ++i) {
      decision->probs[i] += own[width + i];
      decision->picks[i] += own[2 * width + i];
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
Tensor score_sum_gradient(Device& device, SoftmaxOrder order, comm::Communicator* dp,
                          const Decision& decision, const Tensor& dweights) {
  std::vector<float> given = dweights.defined() ? to_host(dweights) : std::vector<float>();
  if (dp != nullptr) {
    given.resize(decision.groups.front().experts.size());
    dp->all_reduce(given.data(), given.size(), comm::ReduceOp::sum);
  }
  std::vector<float> result;
  for (std::size_t g = 0; g < decision.groups.size(); ++g) {
    const Choice& choice = decision.groups[g];
    const std::size_t k = choice.experts.size();
    std::vector<double> own(k, 0.0);
    if (!given.empty())
      for (std::size_t j = 0; j < k; ++j) own[j] = static_cast<double>(given[g * k + j]);
    for (const double gradient : score_gradient(order, choice, own))
      result.push_back(static_cast<float>(gradient / decision.tokens[g]));
  }
  const auto groups = static_cast<std::int64_t>(decision.groups.size());
  return Tensor::from_host(device, {groups, static_cast<std::int64_t>(result.size()) / groups},
                           result);
}

}  // namespace

Routed route(Tape* tape, const Rule& rule, const Var& x, const Var& gate, const Groups& groups,
             const Deciders& deciders, const BalanceGradient& balance,
             std::shared_ptr<const Decision> replay) {
  Device& device = x.value.device();
  const std::int64_t n = x.value.rows(), experts = gate.value.columns();
  FATHOM_CHECK(groups.rows() == n, "groups of ", groups.rows(), " rows for ", n);
  const Tensor probs = Tensor::empty(device, {n, experts});
  {
    const Tensor scores = Tensor::empty(device, {n, experts}),
                 picks = Tensor::empty(device, {n, experts});
    kernels::gemm(x.value, Trans::no, gate.value, Trans::no, scores, 1.0f, 0.0f,
                  kernels::Factors::exact);
    kernels::gate_tokens(scores, groups.counted_rows, rule.top_k, probs, picks);
    if (!replay) {
      const Tensor sums = Tensor::empty(device, {groups.size(), 3 * experts});
      kernels::gate_sums(scores, probs, picks, groups.counted_rows, groups.device_starts, sums);
      replay = decide(rule, static_cast<int>(experts), agree(groups, deciders, to_host(sums)));
    }
  }
  Routed routed{replay, Var(upload_weights(device, *replay))};
  routed.weights.slot = autograd::result_slot(tape, {&x, &gate});
  if (!routed.weights.needs_grad()) return routed;
  const autograd::Remake remake = gate.slot ? x.remake : autograd::Remake();
  const Tensor kept = gate.slot && !remake ? x.value : Tensor();
  tape->record("gate", {kept, probs},
               [=, decision = replay, order = rule.softmax, dp = deciders.dp,
                slot = routed.weights.slot, x_slot = x.slot, x_shape = x.value.shape()] {
                 Tensor dprobs;
                 if (balance.slot && balance.slot->grad().defined())
                   dprobs = balance.slot->grad().slice_columns(balance.first_column, experts);
                 const Tensor dweights = slot->take();
                 if (dp == nullptr && !dweights.defined() && !dprobs.defined()) return;
                 Device& on = probs.device();
                 const Tensor dscores = Tensor::empty(on, {n, experts});
                 kernels::gate_backward(probs, groups.counted_rows, groups.group_of_row,
                                        score_sum_gradient(on, order, dp, *decision, dweights),
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

Balance balance_of(const double* picks, const double* probs, int experts, double tokens,
                   int top_k) {
  Balance balance;
  for (int i = 0; i < experts; ++i) {
    const double share = picks[i] / (tokens * top_k);
    balance.value += experts * share * probs[i] / tokens;
    balance.gradient.push_back(experts * share / tokens);
  }
  return balance;
}

}  // namespace fathom::methods::routing
