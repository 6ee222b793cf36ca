#include "autograd/mixture_operations.h"

#include "kernels/mixture.h"

namespace fathom::autograd {

Var topk_softmax(Tape* tape, const Var& scores, std::int64_t kept) {
  Var y(Tensor::empty(scores.value.device(), scores.value.shape()), result_slot(tape, {&scores}));
  kernels::topk_softmax(scores.value, kept, y.value);
  if (!y.needs_grad()) return y;
  tape->record("mixture", {y.value}, [weights = y.value, slot = y.slot, scores_slot = scores.slot] {
    const Tensor dy = slot->take();
    if (!dy.defined()) return;
    const auto target = scores_slot->target(dy.device(), weights.shape());
    kernels::topk_softmax_backward(weights, dy, target.tensor, target.accumulate);
  });
  return y;
}

Var mixture(Tape* tape, const Var& weights, const std::vector<Var>& parts) {
  FATHOM_CHECK(!parts.empty() && weights.value.columns() == static_cast<std::int64_t>(parts.size()),
               parts.size(), " parts with weights ", to_string(weights.value.shape()));
  bool trained = weights.needs_grad();
  for (const Var& part : parts) trained = trained || part.needs_grad();
  const Tensor& first = parts.front().value;
  Var y(Tensor::empty(first.device(), first.shape()),
        tape != nullptr && trained ? std::make_shared<GradSlot>() : nullptr);
  for (std::size_t j = 0; j < parts.size(); ++j)
    kernels::weigh_rows(parts[j].value, weights.value, static_cast<std::int64_t>(j), y.value,
                        j > 0);
  if (!y.needs_grad()) return y;
  std::vector<Var> kept = parts;
  std::vector<Tensor> saved{weights.value};
  for (Var& part : kept) {
    if (!weights.slot || part.remake) part.value = Tensor();
    if (part.value) saved.push_back(part.value);
  }
  tape->record("mixture", saved, [kept, weights, shape = first.shape(), slot = y.slot] {
    const Tensor dy = slot->take();
    if (!dy.defined()) return;
    Tensor dweights;
    if (weights.slot) dweights = Tensor::empty(dy.device(), weights.value.shape());
    for (std::size_t j = 0; j < kept.size(); ++j) {
      const auto part = static_cast<std::int64_t>(j);
      if (dweights)
        kernels::row_dots(dy, kept[j].remake ? kept[j].remake() : kept[j].value, dweights, part);
      if (!kept[j].slot) continue;
      const auto target = kept[j].slot->target(dy.device(), shape);
      kernels::weigh_rows(dy, weights.value, part, target.tensor, target.accumulate);
    }
    if (dweights) weights.slot->add(std::move(dweights));
  });
  return y;
}

}  // namespace fathom::autograd
