#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "comm/launch_environment.h"
#include "comm/mpi/mpi_options.h"
#include "comm/watchdog.h"

namespace fathom::comm {

/// The life of MPI in this process: made once in main, before any thread and any GPU call, and
/// destroyed last. Without a launcher (see LaunchEnvironment) MPI is not touched and the world is a
/// group of one. Every Communicator made from it must die before it does.
class MpiSession {
 public:
  /// Collective over all ranks of the launch. Throws Error(config) for a launch or a library that
  /// will not do, and Error(comm). A watch over the start begins here (MpiOptions::watch_seconds).
  explicit MpiSession(const MpiOptions& options = {});

  /// Finalizes, which is watched like the start; collective. While an exception unwinds the stack
  /// it aborts the job instead, because finalizing would wait for peers that wait for this rank.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Ends the watch over the start: the ranks have found each other, and whoever goes on watches
  /// them in his own way.
  void started();

  /// Whether a launcher started this process, as read before MPI changed the environment.
  const LaunchEnvironment& launch() const { return launch_; }

  Communicator& world() { return *world_; }
  /// The ranks that share this machine's memory, in world order; rank() is the node-local rank.
  Communicator& node() { return *node_; }
  const std::string& host() const { return host_; }

  /// Ends every rank of the job with this exit code; any thread may call it at any time. Returns
  /// never, and does not wait for other ranks. Where MPI is not up it ends this process, for which
  /// the launcher ends the others.
  [[noreturn]] void abort(int exit_code);

 private:
  void start_mpi(const MpiOptions& options);
  void watch(const char* what);

  LaunchEnvironment launch_;
  std::string host_;
  double watch_seconds_;
  /// Of start and end, where there is no communicator whose calls could be watched.
  std::unique_ptr<Watchdog> edge_;
  std::optional<Watchdog::Call> edge_call_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Communicator> node_;
};

}  // namespace fathom::comm
