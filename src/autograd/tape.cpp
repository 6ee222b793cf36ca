#include "autograd/tape.h"

#include "kernels/elementwise.h"

namespace fathom::autograd {

void GradSlot::add(Tensor gradient) {
  if (!grad_.defined()) {
    grad_ = std::move(gradient);
    return;
  }
  const Target into = target(grad_.device(), grad_.shape());
  kernels::accumulate(gradient.view(into.tensor.shape()), into.tensor);
}

GradSlot::Target GradSlot::target(Device& device, Shape shape) {
  if (!grad_.defined()) {
    grad_ = Tensor::empty(device, shape);
    return {grad_, false};
  }
  FATHOM_CHECK(grad_.elements() == shape.elements(), "gradient ", to_string(grad_.shape()),
               " against ", to_string(shape));
  if (!persistent_ && !grad_.unique()) {
    const Tensor own = Tensor::empty(device, grad_.shape());
    kernels::copy(grad_, own);
    grad_ = own;
  }
  return {grad_, true};
}

Tensor GradSlot::sum_target(Device& device, Shape shape) {
  const Target into = target(device, shape);
  if (!into.accumulate) kernels::fill(into.tensor, 0.0f);
  return into.tensor;
}

Tensor GradSlot::take() {
  FATHOM_CHECK(!persistent_, "a parameter's gradient stays in its buffer");
  Tensor gradient = std::move(grad_);
  grad_ = Tensor();
  return gradient;
}

void Tape::record(const char* operation, const std::vector<Tensor>& saved,
                  std::function<void()> step) {
  std::size_t& bytes = saved_bytes_[operation];
  for (const Tensor& tensor : saved) {
    if (tensor.defined() && counted_.emplace(tensor.storage_id(), true).second)
      bytes += tensor.storage_bytes();
  }
  steps_.push_back(std::move(step));
}

void Tape::backward() {
  while (!steps_.empty()) {
    const std::function<void()> step = std::move(steps_.back());
    steps_.pop_back();
    step();
  }
  counted_.clear();
}

std::shared_ptr<GradSlot> result_slot(const Tape* tape, std::initializer_list<const Var*> inputs) {
  if (tape == nullptr) return nullptr;
  for (const Var* input : inputs)
    if (input->needs_grad()) return std::make_shared<GradSlot>();
  return nullptr;
}

Var recompute(Tape* tape, const Var& input, const Recomputable& f) {
  if (tape == nullptr) return f(nullptr, input);
  Var out(f(nullptr, input).value, std::make_shared<GradSlot>());
  tape->record("recompute", {input.value},
               [input = Var(input.value, input.slot), f, slot = out.slot] {
                 Tensor gradient = slot->take();
                 if (!gradient.defined()) return;
                 Tape replay;
                 const Var again = f(&replay, input);
                 if (!again.needs_grad()) return;
                 again.slot->add(std::move(gradient));
                 replay.backward();
               });
  return out;
}

}  // namespace fathom::autograd
