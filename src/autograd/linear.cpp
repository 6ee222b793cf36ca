#include "autograd/operations.h"

namespace fathom::autograd {

using kernels::Trans;

namespace {

Trans forward_trans(WeightLayout layout) {
  return layout == WeightLayout::out_in ? Trans::yes : Trans::no;
}

// dW += dy^T x for [out, in], x^T dy for [in, out].
void accumulate_weight_gradient(WeightLayout layout, const Tensor& x, const Tensor& dy,
                                const GradSlot::Target& target) {
  const float beta = target.accumulate ? 1.0f : 0.0f;
  if (layout == WeightLayout::out_in) {
    kernels::gemm(dy, Trans::yes, x, Trans::no, target.tensor, 1.0f, beta);
  } else {
    kernels::gemm(x, Trans::yes, dy, Trans::no, target.tensor, 1.0f, beta);
  }
}

}  // namespace

Var linear(Tape* tape, const Var& x, const Var& weight, WeightLayout layout, const Var& bias,
           kernels::Factors factors) {
  const Tensor& w = weight.value;
  const bool out_in = layout == WeightLayout::out_in;
  Var y(Tensor::empty(x.value.device(), {x.value.rows(), out_in ? w.rows() : w.columns()}),
        result_slot(tape, {&x, &weight, &bias}));
  const bool rounds = y.needs_grad() && factors == kernels::Factors::rounded;
  const Tensor in = rounds ? kernels::as_factor(x.value) : x.value;
  kernels::gemm_bias(in, w, forward_trans(layout), bias.value, y.value, factors);
  if (!y.needs_grad()) return y;
  FATHOM_CHECK(!weight.slot || w.dtype() == DType::f32, "a bf16 weight cannot be trained");
  const Remake remake = weight.slot ? x.remake : Remake();
  const Tensor kept = weight.slot && !remake ? in : Tensor();
  const auto parameters = [=, bias_slot = bias.slot, outputs = y.value.columns()](
                              const Tensor& dy, const Tensor& factor) {
    if (weight.slot)
      accumulate_weight_gradient(layout, remake ? remake() : kept, factor,
                                 weight.slot->target(dy.device(), w.shape()));
    if (bias_slot)
      kernels::accumulate_column_sums(dy, bias_slot->sum_target(dy.device(), {outputs}));
  };
  tape->record("linear", {kept},
               [=, slot = y.slot, x_slot = x.slot, x_shape = x.value.shape(), later = x.later] {
                 const Tensor dy = slot->take();
                 if (!dy.defined()) return;
                 const Tensor factor = kernels::as_factor(dy);
                 if (later)
                   later->push_back([=] { parameters(dy, factor); });
                 else
                   parameters(dy, factor);
                 if (x_slot) {
                   const auto target = x_slot->target(dy.device(), x_shape);
                   kernels::gemm(factor, Trans::no, w, out_in ? Trans::no : Trans::yes,
                                 target.tensor, 1.0f, target.accumulate ? 1.0f : 0.0f);
                 }
               });
  return y;
}

}  // namespace fathom::autograd
