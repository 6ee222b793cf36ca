#include "kernels/columns.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "methods/moc/operations.h"

namespace fathom::methods::moc {
namespace {

using autograd::Tape;
using autograd::Var;
using kernels::Trans;

// A product of one expert with some of the rows.
struct Use {
  std::int64_t slot = 0, first_row = 0, rows = 0;
  std::int64_t column = 0;  ///< of A x among those that are kept
  float coefficient = 0;    ///< of B A x
  int choice = -1;          ///< index among all groups' choices; -1: the layer's own control
};

// The own control first, on all rows; then each group's choices.
std::vector<Use> uses_of(const Experts& experts, int own, float alpha, const Groups& groups,
                         const Decision& decision) {
  std::vector<Use> uses = {{.slot = experts.slots.at(static_cast<std::size_t>(own)),
                            .rows = groups.rows(),
                            .coefficient = alpha}};
  int choice = 0;
  for (std::size_t g = 0; g < decision.groups.size(); ++g) {
    const Choice& chosen = decision.groups[g];
    for (std::size_t j = 0; j < chosen.experts.size(); ++j)
      uses.push_back({.slot = experts.slots.at(static_cast<std::size_t>(chosen.experts[j])),
                      .first_row = groups.starts[g],
                      .rows = groups.starts[g + 1] - groups.starts[g],
                      .column = static_cast<std::int64_t>(j + 1) * experts.rank,
                      .coefficient = (1.0f - alpha) * chosen.weights[j],
                      .choice = choice++});
  }
  return uses;
}

}  // namespace

Var control(Tape* tape, const Var& y, const Var& x, const Experts& experts, int own, float alpha,
            const Groups& groups, const Routed& routed) {
  Device& device = x.value.device();
  const std::int64_t n = x.value.rows(), d = x.value.columns(), r = experts.rank;
  const std::vector<Use> uses = uses_of(experts, own, alpha, groups, *routed.decision);
  const auto k = static_cast<std::int64_t>(routed.decision->groups.front().experts.size());
  const Tensor u = Tensor::empty(device, {n, (k + 1) * r});
  const auto rows_of = [](const Tensor& tensor, const Use& use) {
    return tensor.slice_rows(use.first_row, use.rows);
  };
  const auto inner = [r, rows_of](const Tensor& tensor, const Use& use) {
    return rows_of(tensor, use).slice_columns(use.column, r);
  };
  for (const Use& use : uses) {
    kernels::gemm(rows_of(x.value, use), Trans::no, experts.a.value.slice_rows(use.slot * r, r),
                  Trans::yes, inner(u, use));
    kernels::gemm(inner(u, use), Trans::no, experts.b.value.slice_rows(use.slot * d, d), Trans::yes,
                  rows_of(y.value, use), use.coefficient, 1.0f);
  }
  Var z(y.value, autograd::result_slot(tape, {&y, &x, &experts.a, &experts.b, &routed.weights}));
  if (!z.needs_grad()) return z;
  const Shape weights_shape{static_cast<std::int64_t>(routed.decision->groups.size()), k};
  const autograd::Remake remake = experts.a.slot ? x.remake : autograd::Remake();
  const Tensor kept = experts.a.slot && !remake ? x.value : Tensor();
  tape->record(
      "control", {kept, u},
      [=, slot = z.slot, y_slot = y.slot, x_slot = x.slot, weights_slot = routed.weights.slot,
       a = experts.a, b = experts.b, x_shape = x.value.shape()] {
        Tensor dz = slot->take();
        if (!dz.defined()) return;
        Device& on = dz.device();
        const Tensor in = remake ? remake() : kept;
        const Tensor du = Tensor::empty(on, u.shape());
        const Tensor da = a.slot ? a.slot->sum_target(on, a.value.shape()) : Tensor();
        const Tensor db = b.slot ? b.slot->sum_target(on, b.value.shape()) : Tensor();
        const Tensor dots = Tensor::zeros(on, {weights_shape.elements(), r});
        for (const Use& use : uses) {
          const Tensor dy = rows_of(dz, use), dinner = inner(du, use);
          kernels::gemm(dy, Trans::no, b.value.slice_rows(use.slot * d, d), Trans::no, dinner);
          if (db.defined())
            kernels::gemm(dy, Trans::yes, inner(u, use), Trans::no, db.slice_rows(use.slot * d, d),
                          use.coefficient, 1.0f);
          if (da.defined())
            kernels::gemm(dinner, Trans::yes, rows_of(in, use), Trans::no,
                          da.slice_rows(use.slot * r, r), use.coefficient, 1.0f);
          if (weights_slot && use.choice >= 0)
            kernels::accumulate_column_dots(dinner, inner(u, use), {},
                                            dots.slice_rows(use.choice, 1).view({r}));
        }
        if (weights_slot) {
          const Tensor dweights = Tensor::empty(on, weights_shape);
          kernels::row_sums(dots, 1.0f - alpha, dweights);
          weights_slot->add(dweights);
        }
        if (x_slot) {
          const auto dx = x_slot->target(on, x_shape);
          for (const Use& use : uses)  // the first one covers all rows
            kernels::gemm(inner(du, use), Trans::no, a.value.slice_rows(use.slot * r, r), Trans::no,
                          rows_of(dx.tensor, use), use.coefficient,
                          use.choice >= 0 || dx.accumulate ? 1.0f : 0.0f);
        }
        if (y_slot) y_slot->add(std::move(dz));
      });
  return z;
}

}  // namespace fathom::methods::moc
