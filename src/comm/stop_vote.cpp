#include "comm/stop_vote.h"

#include <cstdint>

namespace fathom::comm {

StopVote vote_to_stop(Communicator& group, bool busy) {
  std::int64_t values[] = {stop_signal(), busy};
  group.all_reduce(values, 2, ReduceOp::max);
  return {.signal = static_cast<int>(values[0]), .busy = values[1] != 0};
}

void stop_if_asked(Communicator& group) {
  const StopVote agreed = vote_to_stop(group);
  if (agreed.signal != 0) throw Stopped{agreed.signal};
}

}  // namespace fathom::comm
