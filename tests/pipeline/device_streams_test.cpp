// Why messages between devices cannot wait for each other in a circle (gpu/collectives_nccl.cpp): a
// device runs its kernels in one stream and the messages of each direction in another, every one in
// the order of the schedule; a message starts after the kernels before it and moves when both sides
// have got to it; kernels wait for what was received, and for what was sent where the schedule says
// so. Nothing is buffered.

#include <array>
#include <gtest/gtest.h>
#include <map>

#include "pipeline/schedule.h"

namespace fathom::pipeline {
namespace {

using enum ActionKind;

struct Transfer {
  int peer;
  ActionKind at_peer;
  int micro_batch;
  std::size_t after;  ///< kernels and waits that come before it
  bool done = false;
};

/// What a stage's device has been given; each queue runs in its order.
struct Stage {
  std::vector<Transfer*> kernels;  ///< nullptr: a kernel; otherwise the transfer that is waited for
  std::array<std::vector<Transfer*>, 2> lanes;  ///< up, down
  std::size_t kernels_done = 0;
  std::array<std::size_t, 2> lanes_done{};
  std::map<std::pair<ActionKind, int>, Transfer> transfers;
};

/// `lanes`: how many streams the messages of a device have, 2 or, to see what it would do, 1.
class Pipeline {
 public:
  Pipeline(const std::vector<Schedule>& schedules, int lanes) : lanes_(lanes) {
    stages_.resize(schedules.size());
    for (std::size_t s = 0; s < schedules.size(); ++s)
      for (const Action& action : schedules[s]) give(static_cast<int>(s), action);
  }

  /// Whether all work ends.
  bool run() {
    while (step()) {
    }
    for (const Stage& stage : stages_)
      if (stage.kernels_done < stage.kernels.size()) return false;
    return true;
  }

 private:
  void give(int s, const Action& action) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    const auto transfer = [&](ActionKind at_peer, int peer, int lane) -> Transfer* {
      Transfer& made = stage.transfers[{action.kind, action.micro_batch}];
      made = {peer, at_peer, action.micro_batch, stage.kernels.size()};
      stage.lanes[static_cast<std::size_t>(lane % lanes_)].push_back(&made);
      return &made;
    };
    const auto wait_for = [&](ActionKind kind) {
      stage.kernels.push_back(&stage.transfers.at({kind, action.micro_batch}));
    };
    switch (action.kind) {
      case forward:
      case backward:
        return stage.kernels.push_back(nullptr);
      case recv_bundle:
        return stage.kernels.push_back(transfer(send_bundle, s - 1, 0));
      case recv_grad:
        return stage.kernels.push_back(transfer(send_grad, s + 1, 1));
      case send_bundle:
        transfer(recv_bundle, s + 1, 0);
        return;
      case send_grad:
        transfer(recv_grad, s - 1, 1);
        return;
      case finish_bundle:
        return wait_for(send_bundle);
      case finish_grad:
        return wait_for(send_grad);
    }
  }

  /// Whether a transfer is the next of its stream and may start.
  bool is_ready(int s, const Transfer* transfer) const {
    const Stage& stage = stages_[static_cast<std::size_t>(s)];
    for (std::size_t lane = 0; lane < 2; ++lane) {
      const std::size_t next = stage.lanes_done[lane];
      if (next < stage.lanes[lane].size() && stage.lanes[lane][next] == transfer)
        return stage.kernels_done >= transfer->after;
    }
    return false;
  }

  bool advance_lane(int s, std::size_t lane) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    if (stage.lanes_done[lane] == stage.lanes[lane].size()) return false;
    Transfer* own = stage.lanes[lane][stage.lanes_done[lane]];
    if (!own->done) {
      Stage& peer = stages_[static_cast<std::size_t>(own->peer)];
      Transfer* other = &peer.transfers.at({own->at_peer, own->micro_batch});
      if (!is_ready(s, own) || !is_ready(own->peer, other)) return false;
      own->done = other->done = true;
    }
    ++stage.lanes_done[lane];
    return true;
  }

  bool advance_kernels(Stage& stage) {
    if (stage.kernels_done == stage.kernels.size()) return false;
    const Transfer* awaited = stage.kernels[stage.kernels_done];
    if (awaited != nullptr && !awaited->done) return false;
    ++stage.kernels_done;
    return true;
  }

  bool step() {
    bool any = false;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      while (advance_kernels(stages_[s])) any = true;
      for (std::size_t lane = 0; lane < 2; ++lane)
        while (advance_lane(static_cast<int>(s), lane)) any = true;
    }
    return any;
  }

  int lanes_;
  std::vector<Stage> stages_;
};

TEST(DeviceStreams, NoScheduleStopsWithAStreamForEachDirection) {
  for (int stages = 2; stages <= 9; ++stages)
    for (int micro_batches = 1; micro_batches <= 2 * stages + 1; ++micro_batches)
      for (int first_trainable = 0; first_trainable <= stages; ++first_trainable)
        ASSERT_TRUE(Pipeline(all_schedules(stages, micro_batches, first_trainable), 2).run())
            << stages << " stages, " << micro_batches << " micro-batches, trained from stage "
            << first_trainable;
}

TEST(DeviceStreams, OneStreamForAllMessagesWouldStop) {
  EXPECT_FALSE(Pipeline(all_schedules(2, 2), 1).run());
}

}  // namespace
}  // namespace fathom::pipeline
