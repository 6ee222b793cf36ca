#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/watchdog.h"

namespace fathom::comm {

/// The same group, whose blocking calls are noted with the watchdog, so that a hang can be traced
/// to the rank that does not answer. Groups split off it are watched too; groups of one are not,
/// since they never wait. Making it is collective over the group. Group and watchdog must outlive
/// it; for the working thread only, as the watchdog's notes are.
std::unique_ptr<Communicator> watch(Communicator& group, Watchdog& watchdog);

}  // namespace fathom::comm
