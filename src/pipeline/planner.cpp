#include "pipeline/planner.h"

#include <algorithm>

#include "core/error.h"

namespace fathom::pipeline {
namespace {

/// One stage's time as the replay goes by.
struct StageClock {
  double now = 0;
  double busy = 0;
  double bundle_link_free = 0;  ///< when the link to the next stage can start another message
  double grad_link_free = 0;

  void compute(double seconds) {
    now += seconds;
    busy += seconds;
  }

  void send(Message& message, double transfer_s, double latency_s) {
    double& link_free = message.is_grad ? grad_link_free : bundle_link_free;
    message.sent_s = now;
    link_free = std::max(now, link_free) + transfer_s;
    message.arrived_s = link_free + latency_s;
  }

  void wait_until(double time) { now = std::max(now, time); }
};

std::size_t bytes_of(const Message& message, const std::vector<StageCost>& costs) {
  const StageCost& cost = costs[static_cast<std::size_t>(message.from)];
  return message.is_grad ? cost.grad_bytes : cost.bundle_bytes;
}

}  // namespace

std::size_t StepPlan::total_bytes() const {
  std::size_t total = 0;
  for (const auto& planned : messages) total += planned.bytes;
  return total;
}

StepPlan plan_step(const std::vector<Schedule>& schedules, const std::vector<StageCost>& costs,
                   const LinkCost& link) {
  FATHOM_CHECK(costs.size() == schedules.size(), costs.size(), " costs for ", schedules.size(),
               " stages");
  FATHOM_CHECK(link.bytes_per_s > 0, "link of ", link.bytes_per_s, " bytes/s");
  std::vector<StageClock> clocks(schedules.size());
  const auto messages = replay(schedules, [&](int stage, const Action& action, Message* message) {
    StageClock& clock = clocks[static_cast<std::size_t>(stage)];
    const StageCost& cost = costs[static_cast<std::size_t>(stage)];
    switch (action.kind) {
      case ActionKind::forward:
        return clock.compute(cost.forward_s);
      case ActionKind::backward:
        return clock.compute(cost.backward_s);
      case ActionKind::send_bundle:
      case ActionKind::send_grad:
        return clock.send(*message,
                          static_cast<double>(bytes_of(*message, costs)) / link.bytes_per_s,
                          link.latency_s);
      default:
        return clock.wait_until(message->arrived_s);
    }
  });

  StepPlan plan;
  for (const StageClock& clock : clocks) plan.step_s = std::max(plan.step_s, clock.now);
  for (const StageClock& clock : clocks)
    plan.stages.push_back({clock.busy, plan.step_s > 0 ? 1 - clock.busy / plan.step_s : 0});
  for (const Message& message : messages)
    plan.messages.push_back({message, bytes_of(message, costs)});
  return plan;
}

}  // namespace fathom::pipeline
