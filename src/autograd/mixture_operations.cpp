#include "autograd/mixture_operations.h"

#include "kernels/elementwise.h"
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
  FATHOM_CHECK(weights.value.columns() == static_cast<std::int64_t>(parts.size()), parts.size(),
               " parts with weights ", to_string(weights.value.shape()));
  return add_to_mixture(tape, {}, weights, 0, parts);
}

Var add_to_mixture(Tape* tape, const Var& so_far, const Var& weights, std::int64_t first,
                   const std::vector<Var>& parts) {
  const auto count = static_cast<std::int64_t>(parts.size()), all = weights.value.columns();
  FATHOM_CHECK(count > 0 && first >= 0 && first + count <= all, count, " parts from ", first,
               " on with weights ", to_string(weights.value.shape()));
  bool trained = weights.needs_grad() || so_far.needs_grad();
  for (const Var& part : parts) trained = trained || part.needs_grad();
  const Tensor& like = parts.front().value;
  Var y(Tensor::empty(like.device(), like.shape()),
        tape != nullptr && trained ? std::make_shared<GradSlot>() : nullptr);
  if (so_far.defined()) kernels::copy(so_far.value, y.value);
  for (std::int64_t j = 0; j < count; ++j)
    kernels::weigh_rows(parts[static_cast<std::size_t>(j)].value, weights.value, first + j, y.value,
                        j > 0 || so_far.defined());
  if (!y.needs_grad()) return y;
  std::vector<Var> kept = parts;
  std::vector<Tensor> saved{weights.value};
  for (Var& part : kept) {
    if (!weights.slot || part.remake) part.value = Tensor();
    if (part.value) saved.push_back(part.value);
  }
  tape->record(
      "mixture", saved,
      [kept, weights, first, all, shape = like.shape(), slot = y.slot, sum_slot = so_far.slot] {
        const Tensor dy = slot->take();
        if (!dy.defined()) return;
        Tensor dweights;
        if (weights.slot)
          dweights = static_cast<std::int64_t>(kept.size()) == all
                         ? Tensor::empty(dy.device(), weights.value.shape())
                         : Tensor::zeros(dy.device(), weights.value.shape());
        for (std::size_t j = 0; j < kept.size(); ++j) {
          const std::int64_t part = first + static_cast<std::int64_t>(j);
          if (dweights)
            kernels::row_dots(dy, kept[j].remake ? kept[j].remake() : kept[j].value, dweights,
                              part);
          if (!kept[j].slot) continue;
          const auto target = kept[j].slot->target(dy.device(), shape);
          kernels::weigh_rows(dy, weights.value, part, target.tensor, target.accumulate);
        }
        if (dweights) weights.slot->add(std::move(dweights));
        if (sum_slot) sum_slot->add(dy);
      });
  return y;
}

}  // namespace fathom::autograd
