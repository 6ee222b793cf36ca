#include "train/gradient_reducer.h"

namespace fathom::train {

GradientReducer::GradientReducer(comm::ProcessGrid& grid, comm::Communicator* kv_replicas,
                                 model::ParameterSet& parameters)
    : grid_(grid),
      kv_replicas_(kv_replicas),
      parameters_(parameters),
      next_(parameters.buckets() - 1) {}

namespace {

bool within(const model::Parameter& parameter, const model::ParameterSet::Range& range) {
  return parameter.trainable() && parameter.flat_offset >= range.begin &&
         parameter.flat_offset < range.begin + range.count;
}

}  // namespace

// The copy of a tied embedding on the last stage is final long before the one on the first stage,
// which still waits for gradients: summing them inside the schedule would stop both.
bool GradientReducer::waits_for_other_stage(int bucket) const {
  for (const model::Parameter& parameter : parameters_.parameters())
    if ((parameter.sharing == model::Sharing::first_last ||
         parameter.sharing == model::Sharing::stages) &&
        within(parameter, parameters_.bucket(bucket)))
      return true;
  return false;
}

void GradientReducer::sum_shared(int bucket, model::Sharing sharing, comm::Communicator& group) {
  for (const model::Parameter& parameter : parameters_.parameters()) {
    if (parameter.sharing != sharing || !within(parameter, parameters_.bucket(bucket))) continue;
    const Tensor& gradient = parameter.grad();
    KernelScope scope(gradient.device());
    group.all_reduce(gradient.ptr<float>(), static_cast<std::size_t>(gradient.elements()),
                     comm::ReduceOp::sum);
  }
}

void GradientReducer::start(int bucket) {
  if (kv_replicas_ != nullptr) sum_shared(bucket, model::Sharing::kv_replicas, *kv_replicas_);
  if (grid_.tp().size() > 1) sum_shared(bucket, model::Sharing::tensor, grid_.tp());
  const model::ParameterSet::Range range = parameters_.bucket(bucket);
  if (grid_.dp().size() == 1 || range.count == 0) return;
  const Tensor gradient = parameters_.gradients().slice_rows(range.begin, range.count);
  KernelScope scope(gradient.device());
  pending_.push_back(grid_.dp().start_all_reduce(
      gradient.ptr<float>(), static_cast<std::size_t>(range.count), comm::ReduceOp::sum));
}

void GradientReducer::bucket_done(int bucket) {
  if (!pending_.empty()) {
    const KernelScope scope(parameters_.gradients().device());
    for (comm::Request& request : pending_) request.test();  // lets the library move data on
  }
  FATHOM_CHECK(bucket <= next_, "bucket ", bucket, " became final twice");
  if (bucket != next_) return;  // one before it waits for finish(), and the order must be kept
  if (waits_for_other_stage(bucket)) return;
  start(bucket);
  --next_;
}

void GradientReducer::finish() {
  for (; next_ >= 0; --next_) {
    if (comm::Communicator* group = grid_.first_last())
      sum_shared(next_, model::Sharing::first_last, *group);
    if (grid_.pp().size() > 1) sum_shared(next_, model::Sharing::stages, grid_.pp());
    start(next_);
  }
  for (comm::Request& request : pending_) {
    KernelScope scope(parameters_.gradients().device());
    request.wait();
  }
  pending_.clear();
  next_ = parameters_.buckets() - 1;
}

}  // namespace fathom::train
