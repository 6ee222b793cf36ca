#include "pipeline/schedule.h"

#include <algorithm>

#include "core/error.h"

namespace fathom::pipeline {
namespace {

/// Appends whole forwards and backwards, with the messages that a stage's neighbours make
/// necessary.
class Builder {
 public:
  Builder(int stage, int stages, int first_trainable)
      : stage_(stage), stages_(stages), first_trainable_(first_trainable) {}

  void forward(int micro_batch) {
    if (stage_ > 0) add(ActionKind::recv_bundle, micro_batch);
    add(ActionKind::forward, micro_batch);
    if (!is_last()) add(ActionKind::send_bundle, micro_batch);
  }

  /// The gradient's arrival proves that the bundle was taken, so finishing it there never waits.
  void backward(int micro_batch) {
    if (!is_last()) {
      add(ActionKind::recv_grad, micro_batch);
      add(ActionKind::finish_bundle, micro_batch);
    }
    add(ActionKind::backward, micro_batch);
    if (stage_ == first_trainable_) return;
    // The previous stage takes gradients in this order, so one on its way at a time costs nothing.
    if (micro_batch > 0) add(ActionKind::finish_grad, micro_batch - 1);
    add(ActionKind::send_grad, micro_batch);
  }

  void finish_bundle(int micro_batch) {
    if (!is_last()) add(ActionKind::finish_bundle, micro_batch);
  }

  void finish_last_grad(int micro_batches) {
    if (stage_ != first_trainable_) add(ActionKind::finish_grad, micro_batches - 1);
  }

  Schedule take() { return std::move(actions_); }

 private:
  bool is_last() const { return stage_ == stages_ - 1; }
  void add(ActionKind kind, int micro_batch) { actions_.push_back({kind, micro_batch}); }

  int stage_;
  int stages_;
  int first_trainable_;
  Schedule actions_;
};

}  // namespace

const char* to_string(ActionKind kind) {
  switch (kind) {
    case ActionKind::recv_bundle:
      return "recv_bundle";
    case ActionKind::forward:
      return "forward";
    case ActionKind::send_bundle:
      return "send_bundle";
    case ActionKind::finish_bundle:
      return "finish_bundle";
    case ActionKind::recv_grad:
      return "recv_grad";
    case ActionKind::backward:
      return "backward";
    case ActionKind::send_grad:
      return "send_grad";
    case ActionKind::finish_grad:
      return "finish_grad";
  }
  fail(ErrorKind::internal, "unknown ActionKind ", static_cast<int>(kind));
}

std::string to_string(const Action& action) {
  return str(to_string(action.kind), " of micro-batch ", action.micro_batch);
}

Schedule schedule_1f1b(int stage, int stages, int micro_batches, int first_trainable) {
  FATHOM_CHECK(0 <= stage && stage < stages && micro_batches >= 0, "stage ", stage, " of ", stages,
               ", ", micro_batches, " micro-batches");
  FATHOM_CHECK(0 <= first_trainable && first_trainable <= stages, "first trainable stage ",
               first_trainable, " of ", stages);
  if (stage < first_trainable) return schedule_forward(stage, stages, micro_batches);
  if (micro_batches == 0) return {};

  Builder builder(stage, stages, first_trainable);
  const int ahead = std::min(micro_batches, stages - stage - 1);
  for (int m = 0; m < ahead; ++m) builder.forward(m);
  for (int m = ahead; m < micro_batches; ++m) {
    builder.forward(m);
    builder.backward(m - ahead);
  }
  for (int m = micro_batches - ahead; m < micro_batches; ++m) builder.backward(m);
  builder.finish_last_grad(micro_batches);
  return builder.take();
}

Schedule schedule_forward(int stage, int stages, int micro_batches) {
  FATHOM_CHECK(0 <= stage && stage < stages && micro_batches >= 0, "stage ", stage, " of ", stages,
               ", ", micro_batches, " micro-batches");
  Builder builder(stage, stages, stages);
  const int credit = stages;
  for (int m = 0; m < micro_batches; ++m) {
    if (m >= credit) builder.finish_bundle(m - credit);
    builder.forward(m);
  }
  for (int m = std::max(0, micro_batches - credit); m < micro_batches; ++m)
    builder.finish_bundle(m);
  return builder.take();
}

std::vector<Schedule> all_schedules(int stages, int micro_batches, int first_trainable) {
  std::vector<Schedule> schedules;
  for (int stage = 0; stage < stages; ++stage)
    schedules.push_back(schedule_1f1b(stage, stages, micro_batches, first_trainable));
  return schedules;
}

}  // namespace fathom::pipeline
