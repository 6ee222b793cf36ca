// Communicators in NCCL's own words: how they come and go. They do not block, as the backend asks.

#include "gpu/sim/nccl_communicator.h"

#include <cstring>
#include <map>

namespace fathom::gpu::sim {
namespace {

// Tags of communicators lie above those that others use. An id leaves room for the children of its
// communicator; ids of one process come round after 256, when the first are long gone.
constexpr int kFirstTag = 1 << 30;
constexpr int kChildren = 16;
constexpr int kIds = 256;

/// What an ncclUniqueId holds.
struct Id {
  std::uint64_t magic;
  int maker;   ///< rank of the job
  int number;  ///< of the maker's ids
};
constexpr std::uint64_t kMagic = 0x636d6f6874614663ULL;

int tag_of(const Id& id) {
  return kFirstTag + (id.maker * kIds + id.number % kIds) * kChildren * kTags;
}

using Handles = std::map<ncclComm_t, std::shared_ptr<ncclComm>>;
Handles& handles() {
  static Handles all;
  return all;
}

ncclComm_t add(std::shared_ptr<ncclComm> comm) {
  const ncclComm_t handle = comm.get();
  handles()[handle] = std::move(comm);
  return handle;
}

/// What a rank says of itself at the start.
struct Hello {
  int rank;
  int size;
  int job_rank;
};

}  // namespace

std::shared_ptr<ncclComm> find(ncclComm_t handle) {
  const auto it = handles().find(handle);
  return it == handles().end() ? nullptr : it->second;
}

Meeting::Meeting(ncclComm& comm, int maker) : comm_(comm), host_(maker == job_rank()) {
  comm.world[static_cast<std::size_t>(comm.rank)] = job_rank();
  const int others = comm.size() - 1;
  if (host_) {
    for (int i = 0; i < others; ++i)
      said_.push_back(&hellos_.receive(sizeof(Hello), MPI_ANY_SOURCE, comm.tag + kAgreeTag));
    return;
  }
  const Hello hello{comm.rank, comm.size(), job_rank()};
  hellos_.send(&hello, sizeof hello, maker, comm.tag + kAgreeTag);
  said_.push_back(&lists_.receive(comm.world.size() * sizeof(int), maker, comm.tag + kDataTag));
}

void Meeting::check_guests() {
  for (const auto* bytes : said_) {
    Hello hello{};
    std::memcpy(&hello, bytes->data(), sizeof hello);
    const bool fits = hello.size == comm_.size() && hello.rank >= 0 && hello.rank < comm_.size() &&
                      comm_.world[static_cast<std::size_t>(hello.rank)] < 0;
    if (!fits)
      return comm_.fail(ncclInvalidUsage, "a rank " + std::to_string(hello.rank) + " of " +
                                              std::to_string(hello.size) + " joins a group of " +
                                              std::to_string(comm_.size()) +
                                              " that has no place for it");
    comm_.world[static_cast<std::size_t>(hello.rank)] = hello.job_rank;
  }
}

bool Meeting::advance() {
  if (!hellos_.done()) return false;
  if (host_ && !answered_) {
    answered_ = true;
    check_guests();
    if (comm_.state != ncclInProgress) return false;
    for (const int world : comm_.world)
      if (world != job_rank())
        lists_.send(comm_.world.data(), comm_.world.size() * sizeof(int), world,
                    comm_.tag + kDataTag);
  }
  if (!lists_.done()) return false;
  if (!host_) std::memcpy(comm_.world.data(), said_[0]->data(), said_[0]->size());
  return true;
}

}  // namespace fathom::gpu::sim

void ncclComm::fail(ncclResult_t status, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (state != ncclSuccess && state != ncclInProgress) return;
  error_ = reason;
  state = status;
}

ncclResult_t ncclComm::refuse(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (state == ncclSuccess || state == ncclInProgress) error_ = reason;
  return ncclInvalidArgument;
}

std::string ncclComm::last_error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

using namespace fathom::gpu::sim;

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  if (!job_is_up()) return ncclSystemError;
  const Id ours{kMagic, job_rank(), made++};
  static_assert(sizeof ours <= sizeof id->internal);
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &ours, sizeof ours);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  Id theirs{};
  std::memcpy(&theirs, id.internal, sizeof theirs);
  const bool sound = theirs.magic == kMagic && 0 <= rank && rank < ranks && config->blocking == 0;
  if (!sound || (rank == 0) != (theirs.maker == job_rank())) return ncclInvalidArgument;
  auto made = std::make_shared<ncclComm>(rank, ranks, tag_of(theirs));
  made->meeting = std::make_shared<Meeting>(*made, theirs.maker);
  *comm = add(std::move(made));
  return ncclInProgress;
}

// Known is the one kind of split that keeps all ranks and their order.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child,
                           ncclConfig_t* config) {
  const auto parent = find(comm);
  if (!parent) return ncclInvalidArgument;
  if (color != 0 || key != parent->rank || config->blocking != 0 ||
      parent->children + 1 == kChildren)
    return parent->refuse("ncclCommSplit of a kind that the stand-in does not know");
  const int tag = parent->tag + ++parent->children * kTags;
  auto made = std::make_shared<ncclComm>(parent->rank, parent->size(), tag);
  made->world = parent->world;
  made->state = ncclSuccess;
  *child = add(std::move(made));
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  const auto comm = find(handle);
  if (!comm) return ncclInvalidArgument;
  if (comm->meeting && comm->state == ncclInProgress && comm->meeting->advance()) {
    comm->meeting.reset();
    comm->state = ncclSuccess;
  }
  *state = comm->state;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  const auto comm = find(handle);
  if (!comm) return ncclInvalidArgument;
  if (comm->completed == comm->issued) return ncclSuccess;
  return comm->refuse("a communicator is left while its work is under way");
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return handles().erase(handle) == 1 ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (const auto comm = find(handle)) comm->aborted = true;
  return ncclCommDestroy(handle);
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "internal error";
  }
}

const char* ncclGetLastError(ncclComm_t handle) {
  static thread_local std::string text;
  const auto comm = find(handle);
  text = comm ? comm->last_error() : "";
  return text.c_str();
}
