#include "pipeline/executor.h"

#include <map>

#include "kernels/range.h"

namespace fathom::pipeline {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;

/// A micro-batch between its first and its last action on this stage.
struct Executor::InFlight {
  Bundle in, out;
  Tape tape;
  std::vector<Tensor> gradients;  // on their way to the previous stage
  std::vector<comm::Request> sends;
  std::int64_t tokens = 0;
  int actions_left = 0;
};

namespace {

constexpr int kMaxParts = 16;

// One tag per (micro-batch, part, direction), so that messages cannot be taken for each other.
int bundle_tag(int micro_batch, std::size_t part) {
  return (micro_batch * kMaxParts + static_cast<int>(part)) * 2;
}
int gradient_tag(int micro_batch, std::size_t part) {
  return bundle_tag(micro_batch, part) + 1;
}

void wait_all(Device& device, std::vector<comm::Request>& requests) {
  KernelScope scope(device);
  for (comm::Request& request : requests) request.wait();
  requests.clear();
}

}  // namespace

Executor::Executor(Device& device, comm::Communicator& pp, std::vector<BundlePart> in_parts,
                   std::vector<BundlePart> out_parts)
    : device_(device), pp_(pp), in_parts_(std::move(in_parts)), out_parts_(std::move(out_parts)) {
  FATHOM_CHECK(in_parts_.size() <= kMaxParts && out_parts_.size() <= kMaxParts, "a bundle of ",
               in_parts_.size(), " tensors");
}

void Executor::run(const Schedule& schedule, StageWork& work, bool train,
                   const ActionObserver& observer) {
  std::map<int, InFlight> in_flight;
  std::map<int, int> actions;
  for (const Action& action : schedule) ++actions[action.micro_batch];
  for (const Action& action : schedule) {
    if (observer) observer(action);
    const auto [entry, inserted] = in_flight.try_emplace(action.micro_batch);
    InFlight& state = entry->second;
    if (inserted) {
      state.actions_left = actions[action.micro_batch];
      state.tokens = work.tokens(action.micro_batch);
    }
    if (state.tokens > 0) execute(action, work, state, train);
    if (--state.actions_left == 0) {
      in_flight.erase(entry);
      work.finished(action.micro_batch);
    }
  }
}

void Executor::execute(const Action& action, StageWork& work, InFlight& state, bool train) {
  const kernels::Range range(to_string(action.kind));
  const int mb = action.micro_batch;
  switch (action.kind) {
    case ActionKind::recv_bundle:
      receive_bundle(state, mb, train);
      break;
    case ActionKind::forward:
      state.out = work.forward(train ? &state.tape : nullptr, mb, state.in);
      FATHOM_CHECK(state.out.size() == out_parts_.size(), "stage returned ", state.out.size(),
                   " tensors for a bundle of ", out_parts_.size());
      if (!train) state.in.clear();
      break;
    case ActionKind::send_bundle:
      send_bundle(state, mb);
      break;
    case ActionKind::finish_bundle:
    case ActionKind::finish_grad:
      wait_all(device_, state.sends);
      // The values have left; only the slots are still needed.
      for (Var& part : state.out) part.value = Tensor();
      state.gradients.clear();
      break;
    case ActionKind::recv_grad:
      receive_gradients(state, mb);
      break;
    case ActionKind::backward:
      state.tape.backward();
      state.out.clear();
      break;
    case ActionKind::send_grad:
      send_gradients(state, mb);
      break;
  }
}

void Executor::receive_bundle(InFlight& state, int micro_batch, bool train) {
  for (std::size_t i = 0; i < in_parts_.size(); ++i) {
    Var part(receive(state.tokens, in_parts_[i], pp_.rank() - 1, bundle_tag(micro_batch, i)));
    if (train && in_parts_[i].gradient) part.slot = std::make_shared<GradSlot>();
    state.in.push_back(std::move(part));
  }
}

void Executor::send_bundle(InFlight& state, int micro_batch) {
  for (std::size_t i = 0; i < state.out.size(); ++i)
    state.sends.push_back(send(state.out[i].value, pp_.rank() + 1, bundle_tag(micro_batch, i)));
}

void Executor::receive_gradients(InFlight& state, int micro_batch) {
  for (std::size_t i = 0; i < out_parts_.size(); ++i) {
    if (!out_parts_[i].gradient) continue;
    Tensor gradient =
        receive(state.tokens, out_parts_[i], pp_.rank() + 1, gradient_tag(micro_batch, i));
    if (state.out[i].slot) state.out[i].slot->add(std::move(gradient));
  }
}

void Executor::send_gradients(InFlight& state, int micro_batch) {
  for (std::size_t i = 0; i < in_parts_.size(); ++i) {
    if (!in_parts_[i].gradient) continue;
    Tensor gradient = state.in[i].slot->take();
    if (!gradient.defined())  // no labels in this micro-batch: it adds exactly nothing
      gradient = Tensor::zeros(device_, {in_parts_[i].rows(state.tokens), in_parts_[i].width});
    state.sends.push_back(send(gradient, pp_.rank() - 1, gradient_tag(micro_batch, i)));
    state.gradients.push_back(std::move(gradient));
  }
  state.in.clear();
}

Tensor Executor::receive(std::int64_t tokens, const BundlePart& part, int peer, int tag) {
  const Tensor tensor = Tensor::empty(device_, {part.rows(tokens), part.width});
  KernelScope scope(device_);
  pp_.start_recv(tensor.ptr<float>(), tensor.bytes(), peer, tag).wait();
  return tensor;
}

comm::Request Executor::send(const Tensor& tensor, int peer, int tag) {
  FATHOM_CHECK(tensor.contiguous(), "a bundle's tensors are contiguous");
  KernelScope scope(device_);
  bytes_sent_ += tensor.bytes();
  return pp_.start_send(tensor.ptr<float>(), tensor.bytes(), peer, tag);
}

}  // namespace fathom::pipeline
