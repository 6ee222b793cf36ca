#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "comm/mpi/mpi_session.h"
#include "comm/watchdog.h"

namespace fathom::launch {

/// The ranks of a command, which watch each other: when one stops answering, the others name it and
/// the job ends (comm/watchdog.h).
class WatchedWorld {
 public:
  /// Reports of a hang go to `folder`/hang/<start of the command>, which is made when there is one.
  /// 0 seconds: nobody watches. Collective over the session, which must outlive it, as must the
  /// device, for which a rank may wait as well. Takes over from the session's watch of the start.
  WatchedWorld(comm::MpiSession& session, const Device& device, double seconds,
               const std::filesystem::path& folder);

  comm::Communicator& world() { return watched_ ? *watched_ : session_.world(); }
  comm::Watchdog* watchdog() { return watchdog_ ? &*watchdog_ : nullptr; }

 private:
  comm::MpiSession& session_;
  std::optional<comm::Watchdog> watchdog_;
  std::unique_ptr<comm::Communicator> watched_;  // null for a rank that is alone
};

/// The same for a command that says nothing of its own progress: only its calls to other ranks are
/// known, so that a rank that is alone is not watched. Reports go to ./hang.
WatchedWorld watch_calls(comm::MpiSession& session, const Device& device, double seconds);

}  // namespace fathom::launch
