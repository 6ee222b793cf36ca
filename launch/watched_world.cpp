#include "launch/watched_world.h"

#include <ctime>

#include "comm/watched_communicator.h"
#include "core/error.h"

namespace fathom::launch {
namespace {

/// One folder for each start, named by rank 0's clock.
comm::Watchdog::Place watched_place(comm::MpiSession& session,
                                    const std::filesystem::path& folder) {
  char when[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::strftime(when, sizeof when, "%Y-%m-%dT%H.%M.%SZ", gmtime_r(&now, &utc));
  const std::string start = session.world().broadcast_text(when, 0);
  return {.rank = session.world().rank(),
          .ranks = session.world().size(),
          .host = session.host(),
          .folder = folder / "hang" / start};
}

}  // namespace

WatchedWorld::WatchedWorld(comm::MpiSession& session, const Device& device, double seconds,
                           const std::filesystem::path& folder)
    : session_(session) {
  if (seconds > 0) {
    watchdog_.emplace(watched_place(session, folder), comm::Watchdog::Seconds(seconds),
                      [&session] { session.abort(exit_code(ErrorKind::comm)); });
    watchdog_->watch_device(device);
    if (session.world().size() > 1) watched_ = comm::watch(session.world(), *watchdog_);
  }
  session.started();
}

WatchedWorld watch_calls(comm::MpiSession& session, const Device& device, double seconds) {
  return WatchedWorld(session, device, session.world().size() > 1 ? seconds : 0, ".");
}

}  // namespace fathom::launch
