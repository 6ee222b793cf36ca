#include "pipeline/verify_schedule.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/error.h"
#include "pipeline/replay.h"

namespace fathom::pipeline {
namespace {

using enum ActionKind;

/// Which actions a stage needs for each micro-batch, by its place in the pipeline.
struct StageRole {
  int stage;
  int stages;
  int first_trainable;

  bool needs(ActionKind kind) const {
    const bool last = stage == stages - 1;
    switch (kind) {
      case forward:
        return true;
      case recv_bundle:
        return stage > 0;
      case send_bundle:
      case finish_bundle:
        return !last;
      case backward:
        return stage >= first_trainable;
      case recv_grad:
        return stage >= first_trainable && !last;
      case send_grad:
      case finish_grad:
        return stage > first_trainable;
    }
    return false;
  }
};

constexpr int kAbsent = -1;

/// position[kind] = index in the schedule.
using Positions = std::array<int, kActionKinds>;

int& at(Positions& positions, ActionKind kind) {
  return positions[static_cast<std::size_t>(kind)];
}

std::vector<Positions> locate(const Schedule& schedule, int stage, int micro_batches) {
  Positions absent;
  absent.fill(kAbsent);
  std::vector<Positions> found(static_cast<std::size_t>(micro_batches), absent);
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    const Action& action = schedule[i];
    require(action.micro_batch >= 0 && action.micro_batch < micro_batches, ErrorKind::internal,
            "stage ", stage, ": ", to_string(action), ", but there are ", micro_batches);
    int& position = at(found[static_cast<std::size_t>(action.micro_batch)], action.kind);
    require(position == kAbsent, ErrorKind::internal, "stage ", stage, ": ", to_string(action),
            " twice");
    position = static_cast<int>(i);
  }
  return found;
}

/// Checks that each needed action is there, no other is, and each comes after its cause.
void check_actions(const StageRole& role, std::vector<Positions> positions) {
  constexpr std::array<std::pair<ActionKind, ActionKind>, 7> order = {{{recv_bundle, forward},
                                                                       {forward, send_bundle},
                                                                       {send_bundle, finish_bundle},
                                                                       {forward, backward},
                                                                       {recv_grad, backward},
                                                                       {backward, send_grad},
                                                                       {send_grad, finish_grad}}};
  for (std::size_t m = 0; m < positions.size(); ++m) {
    const int micro_batch = static_cast<int>(m);
    for (int k = 0; k < kActionKinds; ++k) {
      const auto kind = static_cast<ActionKind>(k);
      const bool present = at(positions[m], kind) != kAbsent;
      require(present == role.needs(kind), ErrorKind::internal, "stage ", role.stage, ": ",
              to_string(Action{kind, micro_batch}), present ? " has no purpose" : " is missing");
    }
    for (const auto& [cause, effect] : order) {
      const int before = at(positions[m], cause), after = at(positions[m], effect);
      if (before == kAbsent || after == kAbsent) continue;
      require(before < after, ErrorKind::internal, "stage ", role.stage, ": ",
              to_string(Action{effect, micro_batch}), " comes before its ", to_string(cause));
    }
  }
}

StageLoad measure(const Schedule& schedule, bool trainable) {
  StageLoad most, now;
  for (const Action& action : schedule) {
    if (trainable && action.kind == forward) ++now.live_micro_batches;
    if (action.kind == backward) --now.live_micro_batches;
    if (action.kind == send_bundle) ++now.bundles_on_the_way;
    if (action.kind == finish_bundle) --now.bundles_on_the_way;
    if (action.kind == send_grad) ++now.grads_on_the_way;
    if (action.kind == finish_grad) --now.grads_on_the_way;
    most.live_micro_batches = std::max(most.live_micro_batches, now.live_micro_batches);
    most.bundles_on_the_way = std::max(most.bundles_on_the_way, now.bundles_on_the_way);
    most.grads_on_the_way = std::max(most.grads_on_the_way, now.grads_on_the_way);
  }
  return most;
}

void check_load(const StageRole& role, const StageLoad& load) {
  const auto check = [&](const char* what, int value, int most) {
    require(value <= most, ErrorKind::internal, "stage ", role.stage, " holds ", value, " ", what,
            " at once; at most ", most, " are planned for");
  };
  check("live micro-batches", load.live_micro_batches, role.stages - role.stage);
  check("bundles on the way", load.bundles_on_the_way, role.stages);
  check("gradients on the way", load.grads_on_the_way, 1);
}

}  // namespace

std::vector<StageLoad> verify_schedule(const std::vector<Schedule>& schedules, int micro_batches,
                                       int first_trainable) {
  const int stages = static_cast<int>(schedules.size());
  std::vector<StageLoad> loads;
  for (int stage = 0; stage < stages; ++stage) {
    const Schedule& schedule = schedules[static_cast<std::size_t>(stage)];
    const StageRole role{stage, stages, first_trainable};
    check_actions(role, locate(schedule, stage, micro_batches));
    loads.push_back(measure(schedule, stage >= first_trainable));
    check_load(role, loads.back());
  }
  replay(schedules, [](int, const Action&, Message*) {});
  return loads;
}

}  // namespace fathom::pipeline
