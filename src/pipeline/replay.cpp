#include "pipeline/replay.h"

#include <deque>
#include <string>

#include "core/error.h"

namespace fathom::pipeline {
namespace {

bool is_grad(ActionKind kind) {
  return kind == ActionKind::recv_grad || kind == ActionKind::send_grad ||
         kind == ActionKind::finish_grad;
}

/// What one stage has sent in one direction.
struct Channel {
  std::vector<Message*> sent;
  std::size_t received = 0;
};

class Replay {
 public:
  Replay(const std::vector<Schedule>& schedules, const Visit& visit)
      : schedules_(schedules),
        visit_(visit),
        next_(schedules.size(), 0),
        bundles_(schedules.size()),
        grads_(schedules.size()) {}

  void run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t stage = 0; stage < schedules_.size(); ++stage)
        while (next_[stage] < schedules_[stage].size() && step(static_cast<int>(stage))) {
          ++next_[stage];
          progress = true;
        }
    }
    check_all_ended();
  }

  std::vector<Message> messages() const { return {messages_.begin(), messages_.end()}; }

 private:
  /// Runs the stage's next action if it does not have to wait.
  bool step(int stage) {
    const Action& action = schedules_[static_cast<std::size_t>(stage)][next_of(stage)];
    switch (action.kind) {
      case ActionKind::forward:
      case ActionKind::backward:
        visit_(stage, action, nullptr);
        return true;
      case ActionKind::send_bundle:
        return send(stage, stage + 1, action);
      case ActionKind::send_grad:
        return send(stage, stage - 1, action);
      case ActionKind::recv_bundle:
        return receive(stage, stage - 1, action);
      case ActionKind::recv_grad:
        return receive(stage, stage + 1, action);
      case ActionKind::finish_bundle:
      case ActionKind::finish_grad:
        return finish(stage, action);
    }
    fail(ErrorKind::internal, "unknown action on stage ", stage);
  }

  bool send(int stage, int to, const Action& action) {
    check_stage(stage, to, action);
    messages_.push_back({stage, to, is_grad(action.kind), action.micro_batch});
    channel(stage, action).sent.push_back(&messages_.back());
    visit_(stage, action, &messages_.back());
    return true;
  }

  bool receive(int stage, int from, const Action& action) {
    check_stage(stage, from, action);
    Channel& incoming = channel(from, action);
    if (incoming.received == incoming.sent.size()) return false;
    Message* message = incoming.sent[incoming.received];
    require(message->micro_batch == action.micro_batch, ErrorKind::internal, "stage ", stage, ": ",
            to_string(action), " meets micro-batch ", message->micro_batch, " from stage ", from);
    ++incoming.received;
    visit_(stage, action, message);
    return true;
  }

  bool finish(int stage, const Action& action) {
    const Channel& outgoing = channel(stage, action);
    for (std::size_t i = 0; i < outgoing.sent.size(); ++i) {
      if (outgoing.sent[i]->micro_batch != action.micro_batch) continue;
      if (i >= outgoing.received) return false;
      visit_(stage, action, outgoing.sent[i]);
      return true;
    }
    fail(ErrorKind::internal, "stage ", stage, ": ", to_string(action), " before it was sent");
  }

  void check_stage(int stage, int peer, const Action& action) const {
    require(peer >= 0 && peer < static_cast<int>(schedules_.size()), ErrorKind::internal, "stage ",
            stage, ": ", to_string(action), " has no stage ", peer, " to talk to");
  }

  void check_all_ended() const {
    std::string waiting;
    for (std::size_t stage = 0; stage < schedules_.size(); ++stage) {
      if (next_[stage] == schedules_[stage].size()) continue;
      waiting += str("; stage ", stage, " waits at ", to_string(schedules_[stage][next_[stage]]));
    }
    require(waiting.empty(), ErrorKind::internal, "the schedule deadlocks", waiting);
    for (const auto* channels : {&bundles_, &grads_})
      for (const Channel& c : *channels)
        for (std::size_t i = c.received; i < c.sent.size(); ++i)
          fail(ErrorKind::internal, "stage ", c.sent[i]->from, " sends micro-batch ",
               c.sent[i]->micro_batch, " to stage ", c.sent[i]->to, ", which never receives it");
  }

  Channel& channel(int sender, const Action& action) {
    return (is_grad(action.kind) ? grads_ : bundles_)[static_cast<std::size_t>(sender)];
  }
  std::size_t next_of(int stage) const { return next_[static_cast<std::size_t>(stage)]; }

  const std::vector<Schedule>& schedules_;
  const Visit& visit_;
  std::vector<std::size_t> next_;
  std::vector<Channel> bundles_;  ///< by sending stage
  std::vector<Channel> grads_;    ///< by sending stage
  std::deque<Message> messages_;  ///< a deque, so that the channels' pointers stay valid
};

}  // namespace

std::vector<Message> replay(const std::vector<Schedule>& schedules, const Visit& visit) {
  Replay replay(schedules, visit);
  replay.run();
  return replay.messages();
}

}  // namespace fathom::pipeline
