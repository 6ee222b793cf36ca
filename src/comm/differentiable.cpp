#include "comm/differentiable.h"

namespace fathom::comm {

using autograd::LaterWork;
using autograd::Tape;
using autograd::Var;

namespace {

void check_reducible(const Tensor& tensor) {
  FATHOM_CHECK(tensor.contiguous() && tensor.dtype() == DType::f32, "all_reduce of ",
               to_string(tensor.shape()));
}

// Sums over the group while the device does the work.
void sum_beside(Communicator& group, const Tensor& tensor, LaterWork& work) {
  check_reducible(tensor);
  Request sum = group.start_all_reduce(tensor.ptr<float>(),
                                       static_cast<std::size_t>(tensor.elements()), ReduceOp::sum);
  for (const auto& part : work) part();
  work.clear();
  sum.wait();
}

}  // namespace

void all_reduce(Communicator& group, const Tensor& tensor, ReduceOp op) {
  check_reducible(tensor);
  KernelScope scope(tensor.device());
  group.all_reduce(tensor.ptr<float>(), static_cast<std::size_t>(tensor.elements()), op);
}

Var copy_to_group(Tape* tape, Communicator* group, const Var& x) {
  if (group == nullptr || group->size() == 1 || tape == nullptr || !x.needs_grad()) return x;
  Var y(x.value, std::make_shared<autograd::GradSlot>());
  y.remake = x.remake;
  if (group->reduces_beside_kernels()) y.later = std::make_shared<LaterWork>();
  tape->record("collective", {}, [group, slot = y.slot, x_slot = x.slot, later = y.later] {
    Tensor gradient = slot->take();
    // A micro-batch without labels: no rank of the group has a gradient, for all run the same
    // steps.
    if (!gradient.defined()) return;
    FATHOM_CHECK(gradient.unique(), "a gradient to be summed in place is shared");
    if (later)
      sum_beside(*group, gradient, *later);
    else
      all_reduce(*group, gradient, ReduceOp::sum);
    x_slot->add(std::move(gradient));
  });
  return y;
}

Var sum_over_group(Tape* tape, Communicator* group, const Var& x) {
  if (group == nullptr || group->size() == 1) return x;
  (void)tape;  // the gradient of each summand is the gradient of the sum: nothing to record
  all_reduce(*group, x.value, ReduceOp::sum);
  return x;
}

}  // namespace fathom::comm
