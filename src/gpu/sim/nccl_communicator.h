#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <string>
#include <vector>

#include "gpu/sim/nccl_messages.h"

// A stand-in for NCCL whose ranks talk over MPI. It is stricter than the library: what NCCL answers
// with a hang or with garbage becomes an asynchronous error of the communicator, with words.

namespace fathom::gpu::sim {
class Meeting;
}

/// NCCL names this type and says nothing of it.
struct ncclComm {
  ncclComm(int of_rank, int of_ranks, int first_tag)
      : rank(of_rank), world(static_cast<std::size_t>(of_ranks), -1), tag(first_tag) {}

  int size() const { return static_cast<int>(world.size()); }

  /// It works no more. The first reason stays.
  void fail(ncclResult_t status, const std::string& reason);
  /// Why the call at hand is refused; returns ncclInvalidArgument.
  ncclResult_t refuse(const std::string& reason);
  std::string last_error();

  const int rank;
  std::vector<int> world;  ///< ranks of the job by rank of this group; known once all have joined
  const int tag;           ///< of its messages over MPI: kTags numbers from here on
  int children = 0;        ///< made by ncclCommSplit
  std::shared_ptr<fathom::gpu::sim::Meeting> meeting;  ///< until all have joined

  std::uint64_t issued = 0;                  ///< operations (or groups of them) so far
  std::atomic<std::uint64_t> completed = 0;  ///< of these
  std::atomic<bool> aborted = false;
  std::atomic<ncclResult_t> state = ncclInProgress;

 private:
  std::mutex mutex_;  // streams run on other threads too
  std::string error_;
};

namespace fathom::gpu::sim {

/// How ranks of a new communicator get to know each other: the group's first rank, which has made
/// the id, hears from all others and tells them of each other.
class Meeting {
 public:
  Meeting(ncclComm& comm, int maker);
  /// Never blocks. True once this rank knows all others, and they know that it is there.
  bool advance();

 private:
  void check_guests();

  ncclComm& comm_;
  bool host_;  // of the meeting
  Messages hellos_, lists_;
  std::vector<const std::vector<std::byte>*> said_;
  bool answered_ = false;
};

/// How many tags a communicator has, and what each is for.
inline constexpr int kTags = 4;
enum Tag { kAgreeTag, kDataTag, kMessageTag, kMessageDataTag };

/// The communicator behind a handle; nullptr for one that is null, destroyed or aborted.
std::shared_ptr<ncclComm> find(ncclComm_t handle);

}  // namespace fathom::gpu::sim
