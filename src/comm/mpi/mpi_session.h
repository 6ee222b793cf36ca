#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/launch_environment.h"
#include "comm/mpi/mpi_options.h"

namespace fathom::comm {

/// The life of MPI in this process: made once in main, before any thread and any GPU call, and
/// destroyed last. Without a launcher (see LaunchEnvironment) MPI is not touched and the world is a
/// group of one. Every Communicator made from it must die before it does.
class MpiSession {
 public:
  /// Collective over all ranks of the launch. Throws Error(comm).
  explicit MpiSession(const MpiOptions& options = {});

  /// Finalizes; collective. While an exception unwinds the stack it aborts the job instead, because
  /// finalizing would wait for peers that wait for this rank.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Whether a launcher started this process, as read before MPI changed the environment.
  const LaunchEnvironment& launch() const { return launch_; }

  Communicator& world() { return *world_; }
  /// The ranks that share this machine's memory, in world order; rank() is the node-local rank.
  Communicator& node() { return *node_; }
  const std::string& host() const { return host_; }

  /// Ends every rank of the job with this exit code; any thread may call it at any time. Returns
  /// never, and does not wait for other ranks.
  [[noreturn]] void abort(int exit_code);

 private:
  void start_mpi(const MpiOptions& options);

  LaunchEnvironment launch_;
  std::string host_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Communicator> node_;
};

}  // namespace fathom::comm
