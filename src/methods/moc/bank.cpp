#include "methods/moc/bank.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace fathom::methods::moc {

using autograd::GradSlot;
using autograd::Var;

Bank::Bank(comm::Communicator* pp, std::vector<std::int64_t> counts, std::int64_t rank,
           std::int64_t hidden)
    : pp_(pp),
      most_(*std::max_element(counts.begin(), counts.end())),
      rank_(rank),
      hidden_(hidden) {
  experts_.rank = rank;
  for (std::size_t stage = 0; stage < counts.size(); ++stage)
    for (std::int64_t i = 0; i < counts[stage]; ++i)
      experts_.slots.push_back(static_cast<std::int64_t>(stage) * most_ + i);
  layers_here_ = counts[alone() ? 0 : static_cast<std::size_t>(pp->rank())];
}

void Bank::make(Device& device) {
  if (alone()) {
    experts_.a = a;
    experts_.b = b;
    return;
  }
  trained_ = a.needs_grad();
  const std::int64_t room = most_ * pp_->size();
  const auto whole = [&](Shape shape) {
    Var var(Tensor::zeros(device, shape));
    if (trained_) var.slot = std::make_shared<GradSlot>(Tensor::zeros(device, shape));
    return var;
  };
  experts_.a = whole({room * rank_, hidden_});
  experts_.b = whole({room * hidden_, rank_});
}

void Bank::gather() {
  if (!experts_.a.defined()) make(a.value.device());
  if (alone()) return;
  gather(a.value, experts_.a.value);
  gather(b.value, experts_.b.value);
}

// Stages with fewer layers than the largest send some room that nobody reads.
void Bank::gather(const Tensor& own, const Tensor& all) {
  const std::int64_t rows = own.rows() / layers_here_ * most_;
  Tensor mine = own;
  if (layers_here_ < most_) {
    mine = Tensor::zeros(own.device(), {rows, own.columns()});
    kernels::copy(own, mine.slice_rows(0, own.rows()));
  }
  KernelScope scope(own.device());
  pp_->all_gather(mine.ptr<float>(), mine.bytes(), all.ptr<float>());
  bytes_received_ += static_cast<std::int64_t>(all.bytes() - mine.bytes());
}

void Bank::return_gradients() {
  if (alone() || !trained_) return;
  return_gradients(a, experts_.a.slot->grad());
  return_gradients(b, experts_.b.slot->grad());
}

void Bank::return_gradients(const Var& own, const Tensor& all) {
  const std::int64_t rows = own.value.rows() / layers_here_ * most_;
  const Tensor mine = Tensor::empty(all.device(), {rows, own.value.columns()});
  {
    KernelScope scope(all.device());
    pp_->reduce_scatter(all.ptr<float>(), mine.ptr<float>(),
                        static_cast<std::size_t>(mine.elements()));
  }
  // Of this stage's part, one from every other.
  bytes_received_ += static_cast<std::int64_t>(mine.bytes()) * (pp_->size() - 1);
  kernels::accumulate(mine.slice_rows(0, own.value.rows()),
                      own.slot->sum_target(all.device(), own.value.shape()));
  kernels::fill(all, 0.0f);
}

std::int64_t exchange_bytes(std::int64_t stages, std::int64_t most_layers, std::int64_t rank,
                            std::int64_t hidden) {
  return (stages - 1) * most_layers * 2 * rank * hidden * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace fathom::methods::moc
