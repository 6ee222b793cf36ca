#pragma once

#include <string>
#include <vector>

namespace fathom::pipeline {

/// What a stage does next. A bundle travels to the next stage, a gradient to the previous one.
///  - recv_*   blocks until the message is here. Posting the receive earlier is always safe.
///  - send_*   starts the message and goes on; its buffers stay in use until finish_*.
///  - finish_* blocks until the receiver has taken the message; then its buffers are free.
enum class ActionKind {
  recv_bundle,
  forward,
  send_bundle,
  finish_bundle,
  recv_grad,
  backward,
  send_grad,
  finish_grad,
};
inline constexpr int kActionKinds = 8;

struct Action {
  ActionKind kind;
  int micro_batch;

  bool operator==(const Action&) const = default;
};

using Schedule = std::vector<Action>;

const char* to_string(ActionKind kind);
/// "recv_grad of micro-batch 3".
std::string to_string(const Action& action);

/// One forward, one backward (Narayanan et al. 2019, arXiv:1806.03377): stage s runs
/// min(micro_batches, stages - s - 1) forwards ahead, then alternates, then drains. At most stages
/// - s micro-batches are live on it.
///
/// Stages before `first_trainable` have nothing trainable at or before them: they run no backward
/// and get no gradient, and the stage after them sends none. With `first_trainable` = stages
/// nothing is trained: see schedule_forward. Requires 0 <= stage < stages, micro_batches >= 0 and
/// 0 <= first_trainable <= stages.
Schedule schedule_1f1b(int stage, int stages, int micro_batches, int first_trainable = 0);

/// Forwards only, for evaluation and generation. No gradient comes back to pace a stage, so at most
/// `stages` of its bundles are on their way at any time.
Schedule schedule_forward(int stage, int stages, int micro_batches);

/// The schedules of all stages.
std::vector<Schedule> all_schedules(int stages, int micro_batches, int first_trainable = 0);

}  // namespace fathom::pipeline
