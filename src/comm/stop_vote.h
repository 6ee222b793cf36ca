#pragma once

#include "comm/communicator.h"
#include "core/stop_signal.h"

namespace fathom::comm {

/// What the ranks of a group know together about stopping; the same on each of them. A rank that
/// acted on its own signal alone would leave the others waiting.
struct StopVote {
  int signal = 0;     ///< that asked any rank to stop; 0: none was asked
  bool busy = false;  ///< any rank said so
};

/// Collective; reduces two integers. `busy`: this rank still has work that a stop would cut short.
StopVote vote_to_stop(Communicator& group, bool busy = false);

/// Collective. Throws Stopped on every rank if any of them was asked to stop.
void stop_if_asked(Communicator& group);

}  // namespace fathom::comm
