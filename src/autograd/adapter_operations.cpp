#include "autograd/adapter_operations.h"

#include "kernels/columns.h"

namespace fathom::autograd {
namespace {

// The Var that follows y after a change in place.
Var changed(const Tape* tape, const Var& y, std::initializer_list<const Var*> inputs) {
  return Var(y.value, result_slot(tape, inputs));
}

// A gradient that the caller may write to.
Tensor own(Tensor gradient) {
  if (gradient.unique()) return gradient;
  const Tensor copy = Tensor::empty(gradient.device(), gradient.shape());
  kernels::copy(gradient, copy);
  return copy;
}

Tensor copy_of(const Tensor& x) {
  const Tensor copy = Tensor::empty(x.device(), {x.rows(), x.columns()});
  kernels::copy(x, copy);
  return copy;
}

}  // namespace

Var add_bias(Tape* tape, const Var& y, const Var& bias) {
  kernels::add_bias(y.value, bias.value);
  Var z = changed(tape, y, {&y, &bias});
  if (!z.needs_grad()) return z;
  tape->record("bias", {},
               [slot = z.slot, y_slot = y.slot, bias_slot = bias.slot, n = bias.value.elements()] {
                 Tensor dz = slot->take();
                 if (!dz.defined()) return;
                 if (bias_slot)
                   kernels::accumulate_column_sums(dz, bias_slot->sum_target(dz.device(), {n}));
                 if (y_slot) y_slot->add(std::move(dz));
               });
  return z;
}

Var accumulate_columns(Tape* tape, const Var& y, const Var& delta, std::int64_t first_column,
                       float factor) {
  const std::int64_t n = delta.value.columns();
  kernels::accumulate_scaled(delta.value, factor, y.value.slice_columns(first_column, n));
  Var z = changed(tape, y, {&y, &delta});
  if (!z.needs_grad()) return z;
  tape->record("columns", {}, [=, slot = z.slot, y_slot = y.slot, delta_slot = delta.slot] {
    Tensor dz = slot->take();
    if (!dz.defined()) return;
    if (delta_slot)
      kernels::accumulate_scaled(dz.slice_columns(first_column, n), factor,
                                 delta_slot->sum_target(dz.device(), {dz.rows(), n}));
    if (y_slot) y_slot->add(std::move(dz));
  });
  return z;
}

Var accumulate_rows(Tape* tape, const Var& y, const Var& delta, const Tensor& rows) {
  kernels::accumulate_rows(delta.value, rows, y.value);
  Var z = changed(tape, y, {&y, &delta});
  if (!z.needs_grad()) return z;
  tape->record("rows", {rows}, [rows, slot = z.slot, y_slot = y.slot, delta_slot = delta.slot] {
    Tensor dz = slot->take();
    if (!dz.defined()) return;
    if (delta_slot) {
      const Tensor ddelta = Tensor::empty(dz.device(), {rows.elements(), dz.columns()});
      kernels::gather_rows(dz, rows, ddelta);
      delta_slot->add(ddelta);
    }
    if (y_slot) y_slot->add(std::move(dz));
  });
  return z;
}

Var scale_columns(Tape* tape, const Var& y, std::int64_t first_column, const Var& magnitude,
                  const Tensor& inverse, const Tensor& factor) {
  const std::int64_t n = factor.elements();
  const Tensor part = y.value.slice_columns(first_column, n);
  Var z = changed(tape, y, {&y, &magnitude});
  const Tensor before = z.needs_grad() && magnitude.slot ? copy_of(part) : Tensor();
  kernels::scale_columns(part, factor);
  if (!z.needs_grad()) return z;
  tape->record("scale", {before}, [=, slot = z.slot, y_slot = y.slot, m_slot = magnitude.slot] {
    Tensor dz = slot->take();
    if (!dz.defined()) return;
    if (m_slot)
      kernels::accumulate_column_dots(dz.slice_columns(first_column, n), before, inverse,
                                      m_slot->sum_target(dz.device(), {n}));
    if (!y_slot) return;
    dz = own(std::move(dz));
    kernels::scale_columns(dz.slice_columns(first_column, n), factor);
    y_slot->add(std::move(dz));
  });
  return z;
}

namespace {

// drop(x) as a tensor of its own, or x itself.
Tensor dropped(const Tensor& x, const kernels::Dropout& dropout) {
  if (dropout.probability <= 0) return x;
  const Tensor out = Tensor::empty(x.device(), x.shape());
  kernels::dropout_backward(x, dropout, out);  // the mask of the forward pass, applied to x
  return out;
}

// A rank range of the stacked products, and its outputs in y.
struct Slice {
  std::int64_t first, rank, first_column, outputs;
};

std::vector<Slice> slices_of(const std::vector<LowRankPart>& parts, const Tensor& a) {
  std::vector<Slice> slices;
  std::int64_t at = 0;
  for (const LowRankPart& part : parts) {
    slices.push_back({at, part.b.value.columns(), part.first_column, part.b.value.rows()});
    at += slices.back().rank;
  }
  FATHOM_CHECK(at == a.rows(), "parts of rank ", at, " for A of ", to_string(a.shape()));
  return slices;
}

// dx += drop'(du A), and dA += du^T drop(x), for rows [first, first + rank) of A.
void input_side(const Tensor& du, const Tensor& x, const Var& a, const Slice& s,
                const kernels::Dropout& dropout, const Tensor& da, const GradSlot::Target& dx) {
  using kernels::Trans;
  if (da.defined())
    kernels::gemm(du, Trans::yes, dropped(x, dropout), Trans::no, da.slice_rows(s.first, s.rank),
                  1.0f, 1.0f);
  if (!dx.tensor.defined()) return;
  const Tensor rows = a.value.slice_rows(s.first, s.rank);
  if (dropout.probability <= 0) {
    kernels::gemm(du, Trans::no, rows, Trans::no, dx.tensor, 1.0f, dx.accumulate ? 1.0f : 0.0f);
    return;
  }
  const Tensor part = Tensor::empty(du.device(), dx.tensor.shape());
  kernels::gemm(du, Trans::no, rows, Trans::no, part);
  if (dx.accumulate) {
    kernels::dropout_backward(part, dropout, part);
    kernels::accumulate(part, dx.tensor);
  } else {
    kernels::dropout_backward(part, dropout, dx.tensor);
  }
}

}  // namespace

Var low_rank_add(Tape* tape, const Var& y, const Var& x, const Var& a,
                 const std::vector<LowRankPart>& parts, float scale) {
  using kernels::Trans;
  Device& device = x.value.device();
  const std::int64_t n = x.value.rows();
  const std::vector<Slice> slices = slices_of(parts, a.value);
  const bool drops = parts.front().dropout.probability > 0;
  const Tensor u = Tensor::empty(device, {n, a.value.rows()});
  if (!drops) kernels::gemm(x.value, Trans::no, a.value, Trans::yes, u);
  bool needs = x.needs_grad() || y.needs_grad() || a.needs_grad();
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Slice& s = slices[p];
    const Tensor part = u.slice_columns(s.first, s.rank);
    if (drops)
      kernels::gemm(dropped(x.value, parts[p].dropout), Trans::no,
                    a.value.slice_rows(s.first, s.rank), Trans::yes, part);
    kernels::gemm(part, Trans::no, parts[p].b.value, Trans::yes,
                  y.value.slice_columns(s.first_column, s.outputs), scale, 1.0f);
    needs = needs || parts[p].b.needs_grad();
  }
  Var z(y.value);
  if (tape == nullptr || !needs) return z;
  z.slot = std::make_shared<GradSlot>();
  const Remake remake = a.slot ? x.remake : Remake();
  const Tensor kept = a.slot && !remake ? x.value : Tensor();
  tape->record("adapter", {kept, u},
               [=, slot = z.slot, y_slot = y.slot, x_slot = x.slot, x_shape = x.value.shape()] {
                 Tensor dz = slot->take();
                 if (!dz.defined()) return;
                 const Tensor in = remake ? remake() : kept;
                 const Tensor du = Tensor::empty(dz.device(), u.shape());
                 for (std::size_t p = 0; p < parts.size(); ++p) {
                   const Slice& s = slices[p];
                   const Tensor dy = dz.slice_columns(s.first_column, s.outputs);
                   kernels::gemm(dy, Trans::no, parts[p].b.value, Trans::no,
                                 du.slice_columns(s.first, s.rank), scale);
                   if (const auto& b_slot = parts[p].b.slot) {
                     const auto db = b_slot->target(dz.device(), parts[p].b.value.shape());
                     kernels::gemm(dy, Trans::yes, u.slice_columns(s.first, s.rank), Trans::no,
                                   db.tensor, scale, db.accumulate ? 1.0f : 0.0f);
                   }
                 }
                 const Tensor da =
                     a.slot ? a.slot->sum_target(dz.device(), a.value.shape()) : Tensor();
                 const auto dx = [&] {
                   return x_slot ? x_slot->target(dz.device(), x_shape) : GradSlot::Target{};
                 };
                 if (!drops) {
                   input_side(du, in, a, {0, a.value.rows(), 0, 0}, {}, da, dx());
                 } else {
                   for (std::size_t p = 0; p < parts.size(); ++p)
                     input_side(du.slice_columns(slices[p].first, slices[p].rank), in, a, slices[p],
                                parts[p].dropout, da, dx());
                 }
                 if (y_slot) y_slot->add(std::move(dz));
               });
  return z;
}

namespace {

// B (lambda_d * u) for all ranges, side by side.
Tensor projected(const Tensor& u, const Tensor& lambda_d, const std::vector<ProjectedRange>& ranges,
                 std::int64_t outputs) {
  const Tensor weighted = copy_of(u);
  kernels::scale_columns(weighted, lambda_d);
  const Tensor out = Tensor::empty(u.device(), {u.rows(), outputs});
  std::int64_t at = 0;
  for (const ProjectedRange& range : ranges) {
    kernels::gemm(weighted, kernels::Trans::no, range.b, kernels::Trans::yes,
                  out.slice_columns(at, range.b.rows()));
    at += range.b.rows();
  }
  return out;
}

}  // namespace

Var projected_add(Tape* tape, const Var& y, const Var& x, const Tensor& a, const Var& lambda_d,
                  const std::vector<ProjectedRange>& ranges, const Var& lambda_b,
                  const kernels::Dropout& dropout) {
  using kernels::Trans;
  const std::int64_t outputs = lambda_b.value.elements();
  const Tensor u = Tensor::empty(x.value.device(), {x.value.rows(), a.rows()});
  kernels::gemm(dropped(x.value, dropout), Trans::no, a, Trans::yes, u);
  const Tensor delta = projected(u, lambda_d.value, ranges, outputs);
  kernels::scale_columns(delta, lambda_b.value);
  std::int64_t at = 0;
  for (const ProjectedRange& range : ranges) {
    const std::int64_t n = range.b.rows();
    kernels::accumulate(delta.slice_columns(at, n), y.value.slice_columns(range.first_column, n));
    at += n;
  }
  Var z = changed(tape, y, {&y, &x, &lambda_d, &lambda_b});
  if (!z.needs_grad()) return z;
  tape->record("adapter", {u},
               [=, slot = z.slot, y_slot = y.slot, x_slot = x.slot, x_shape = x.value.shape()] {
                 Tensor dz = slot->take();
                 if (!dz.defined()) return;
                 const Tensor dy = Tensor::empty(dz.device(), {dz.rows(), outputs});
                 const auto each_range = [&](const auto& f) {
                   std::int64_t column = 0;
                   for (const ProjectedRange& range : ranges) {
                     f(range, column);
                     column += range.b.rows();
                   }
                 };
                 each_range([&](const ProjectedRange& range, std::int64_t column) {
                   kernels::copy(dz.slice_columns(range.first_column, range.b.rows()),
                                 dy.slice_columns(column, range.b.rows()));
                 });
                 if (lambda_b.slot)
                   kernels::accumulate_column_dots(
                       dy, projected(u, lambda_d.value, ranges, outputs), {},
                       lambda_b.slot->sum_target(dz.device(), {outputs}));
                 kernels::scale_columns(dy, lambda_b.value);
                 const Tensor du = Tensor::zeros(dz.device(), u.shape());
                 each_range([&](const ProjectedRange& range, std::int64_t column) {
                   kernels::gemm(dy.slice_columns(column, range.b.rows()), Trans::no, range.b,
                                 Trans::no, du, 1.0f, 1.0f);
                 });
                 if (lambda_d.slot)
                   kernels::accumulate_column_dots(
                       du, u, {}, lambda_d.slot->sum_target(dz.device(), {a.rows()}));
                 kernels::scale_columns(du, lambda_d.value);
                 if (x_slot)
                   input_side(du, {}, Var(a), {0, a.rows(), 0, 0}, dropout, {},
                              x_slot->target(dz.device(), x_shape));
                 if (y_slot) y_slot->add(std::move(dz));
               });
  return z;
}

}  // namespace fathom::autograd
