#pragma once

#include <functional>
#include <vector>

#include "pipeline/schedule.h"

namespace fathom::pipeline {

/// A message between neighbouring stages, as a replay sees it.
struct Message {
  int from;
  int to;
  bool is_grad;
  int micro_batch;
  double sent_s = 0;     ///< for the visitor's use
  double arrived_s = 0;  ///< for the visitor's use
};

/// Called for every action; `message` is the one that the action sends, receives or finishes, else
/// nullptr.
using Visit = std::function<void(int stage, const Action& action, Message* message)>;

/// Runs the schedules of all stages against each other, with nothing buffered: a message counts as
/// delivered when its receive runs. Actions are visited in an order in which they could happen.
/// Returns all messages in the order of their sends.
///
/// A stage's actions are fixed and each receive names its sender, so what can run does not depend
/// on timing: one replay that ends proves that every run ends.
///
/// Throws Error(internal) when stages wait for each other (the text lists where each one stands),
/// when a message is not the one that its receiver expects, or when one is never received.
std::vector<Message> replay(const std::vector<Schedule>& schedules, const Visit& visit);

}  // namespace fathom::pipeline
