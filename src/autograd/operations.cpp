#include "autograd/operations.h"

#include "kernels/embedding.h"
#include "kernels/rope.h"

namespace fathom::autograd {

using kernels::Trans;

Var norm(Tape* tape, kernels::NormKind kind, float eps, const Var& x, const Var& weight,
         const Var& bias) {
  Device& device = x.value.device();
  Var y(Tensor::empty(device, x.value.shape()), result_slot(tape, {&x, &weight, &bias}));
  const Tensor stats = Tensor::empty(device, {x.value.rows(), 2});
  kernels::norm_forward(kind, eps, x.value, weight.value, bias.value, y.value, stats);
  if (!y.needs_grad()) return y;
  if (tape->remakes())
    y.remake = [=, in = x.value, scale = weight.value, shift = bias.value] {
      const Tensor again = Tensor::empty(in.device(), in.shape());
      kernels::norm_forward(kind, eps, in, scale, shift, again, stats);  // the same statistics
      return again;
    };
  tape->record("norm", {x.value, stats}, [=, slot = y.slot, y_shape = y.value.shape()] {
    const Tensor dy = slot->take();
    if (!dy.defined()) return;
    GradSlot::Target dx{};
    if (x.slot) dx = x.slot->target(dy.device(), y_shape);
    const Tensor dweight =
        weight.slot ? weight.slot->sum_target(dy.device(), weight.value.shape()) : Tensor();
    const Tensor dbias =
        bias.slot ? bias.slot->sum_target(dy.device(), bias.value.shape()) : Tensor();
    kernels::norm_backward(kind, x.value, weight.value, stats, dy, dx.tensor, dx.accumulate,
                           dweight, dbias);
  });
  return y;
}

Var activation(Tape* tape, kernels::Activation kind, const Var& x, const Var& bias) {
  Var y(Tensor::empty(x.value.device(), x.value.shape()), result_slot(tape, {&x, &bias}));
  kernels::activation_forward(kind, x.value, bias.value, y.value);
  if (!y.needs_grad()) return y;
  if (tape->remakes())
    y.remake = [kind, in = x.value, shift = bias.value] {
      const Tensor again = Tensor::empty(in.device(), in.shape());
      kernels::activation_forward(kind, in, shift, again);
      return again;
    };
  tape->record("activation", {x.value}, [=, slot = y.slot] {
    Tensor dy = slot->take();
    if (!dy.defined()) return;
    const Tensor dx = dy.unique() ? dy : Tensor::empty(dy.device(), dy.shape());
    kernels::activation_backward(kind, x.value, bias.value, dy, dx);
    if (bias.slot) {
      kernels::accumulate_column_sums(dx, bias.slot->sum_target(dy.device(), bias.value.shape()));
    }
    dy = Tensor();
    if (x.slot) x.slot->add(dx);
  });
  return y;
}

Var gated(Tape* tape, kernels::Activation kind, const Var& x) {
  Device& device = x.value.device();
  Var y(Tensor::empty(device, {x.value.rows(), x.value.columns() / 2}), result_slot(tape, {&x}));
  kernels::gated_forward(kind, x.value, y.value);
  if (!y.needs_grad()) return y;
  if (tape->remakes())
    y.remake = [kind, in = x.value] {
      const Tensor again = Tensor::empty(in.device(), {in.rows(), in.columns() / 2});
      kernels::gated_forward(kind, in, again);
      return again;
    };
  tape->record("activation", {x.value}, [=, slot = y.slot] {
    const Tensor dy = slot->take();
    if (!dy.defined()) return;
    const Tensor dx = Tensor::empty(dy.device(), x.value.shape());
    kernels::gated_backward(kind, x.value, dy, dx);
    x.slot->add(dx);
  });
  return y;
}

Var residual(Tape* tape, const Var& residual, const Var& delta, const Var& bias,
             const kernels::Dropout& dropout) {
  Var y(Tensor::empty(delta.value.device(), delta.value.shape()),
        result_slot(tape, {&residual, &delta, &bias}));
  kernels::residual_forward(residual.value, delta.value, bias.value, dropout, y.value);
  if (!y.needs_grad()) return y;
  tape->record("residual", {},
               [=, slot = y.slot, bias_shape = bias.defined() ? bias.value.shape() : Shape{},
                residual_slot = residual.slot, delta_slot = delta.slot, bias_slot = bias.slot] {
                 const Tensor dy = slot->take();
                 if (!dy.defined()) return;
                 if (residual_slot) residual_slot->add(dy);
                 if (!delta_slot && !bias_slot) return;
                 Tensor ddelta = dy;
                 if (dropout.probability > 0) {
                   ddelta = Tensor::empty(dy.device(), dy.shape());
                   kernels::dropout_backward(dy, dropout, ddelta);
                 }
                 if (bias_slot)
                   kernels::accumulate_column_sums(ddelta,
                                                   bias_slot->sum_target(dy.device(), bias_shape));
                 if (delta_slot) delta_slot->add(ddelta);
               });
  return y;
}

namespace {

struct Projections {
  Tensor q, k, v;
};

Projections split(const kernels::AttentionShape& shape, const Tensor& qkv) {
  const std::int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
  FATHOM_CHECK(qkv.columns() == q + 2 * kv, "fused projection ", to_string(qkv.shape()), " for ",
               shape.heads, "+2*", shape.kv_heads, " heads of ", shape.head_dim);
  return {qkv.slice_columns(0, q), qkv.slice_columns(q, kv), qkv.slice_columns(q + kv, kv)};
}

void rotate_query_and_key(const kernels::AttentionShape& shape, const Tensor& qkv,
                          const Tensor& positions, const RopeTables& rope, float direction) {
  const std::int64_t columns = (shape.heads + shape.kv_heads) * shape.head_dim;
  kernels::rotate(qkv.slice_columns(0, columns), shape.head_dim, positions, rope.cosines,
                  rope.sines, direction);
}

}  // namespace

Var attention(Tape* tape, const kernels::AttentionShape& shape, const Var& qkv,
              const TokenRows& rows, const RopeTables* rope,
              const kernels::AttentionDropout& dropout) {
  Device& device = qkv.value.device();
  const std::int64_t n = qkv.value.rows();
  if (rope != nullptr) rotate_query_and_key(shape, qkv.value, rows.positions, *rope, 1.0f);
  const Projections in = split(shape, qkv.value);
  Var y(Tensor::empty(device, {n, shape.heads * shape.head_dim}), result_slot(tape, {&qkv}));
  const Tensor lse = Tensor::empty(device, {n, shape.heads});
  kernels::attention_forward(shape, rows.starts, dropout, in.q, in.k, in.v, y.value, lse);
  if (!y.needs_grad()) return y;
  const RopeTables tables = rope != nullptr ? *rope : RopeTables{};
  tape->record("attention", {qkv.value, y.value, lse},
               [=, qkv_value = qkv.value, out = y.value, slot = y.slot, qkv_slot = qkv.slot,
                starts = rows.starts, positions = rows.positions] {
                 const Tensor dout = slot->take();
                 if (!dout.defined()) return;
                 const Tensor dqkv = Tensor::empty(dout.device(), qkv_value.shape());
                 const Projections input = split(shape, qkv_value), grad = split(shape, dqkv);
                 kernels::attention_backward(shape, starts, dropout, input.q, input.k, input.v, out,
                                             lse, dout, grad.q, grad.k, grad.v);
                 if (tables.cosines.defined())
                   rotate_query_and_key(shape, dqkv, positions, tables, -1.0f);
                 qkv_slot->add(dqkv);
               });
  return y;
}

Var embedding(Tape* tape, const Var& table, std::int64_t first_id, const Tensor& ids) {
  Var y(Tensor::empty(ids.device(), {ids.elements(), table.value.columns()}),
        result_slot(tape, {&table}));
  kernels::embedding_forward(table.value, first_id, ids, false, y.value);
  if (!y.needs_grad()) return y;
  tape->record(
      "embedding", {ids}, [=, shape = table.value.shape(), table_slot = table.slot, slot = y.slot] {
        const Tensor dy = slot->take();
        if (!dy.defined()) return;
        kernels::embedding_backward(dy, first_id, ids, table_slot->sum_target(dy.device(), shape));
      });
  return y;
}

Var add(Tape* tape, const Var& a, const Var& b) {
  return residual(tape, a, b, {}, {});
}

Var gather(Tape* tape, const Var& x, const Tensor& rows) {
  Var y(Tensor::empty(x.value.device(), {rows.elements(), x.value.columns()}),
        result_slot(tape, {&x}));
  kernels::gather_rows(x.value, rows, y.value);
  if (!y.needs_grad()) return y;
  tape->record("gather", {rows}, [=, shape = x.value.shape(), x_slot = x.slot, slot = y.slot] {
    const Tensor dy = slot->take();
    if (!dy.defined()) return;
    kernels::accumulate_rows(dy, rows, x_slot->sum_target(dy.device(), shape));
  });
  return y;
}

}  // namespace fathom::autograd
