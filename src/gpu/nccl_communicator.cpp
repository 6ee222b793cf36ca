#include "gpu/nccl_communicator.h"

#include <exception>
#include <thread>

#include "core/error.h"
#include "gpu/check.h"

namespace fathom::gpu {
namespace {

using Clock = std::chrono::steady_clock;

ncclConfig_t config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

std::string peer_text(const NcclCall& call) {
  return call.peer < 0 ? "" : str(" with rank ", call.peer, " of the group");
}

}  // namespace

NcclCommunicator::NcclCommunicator(HostWait& wait, const ncclUniqueId& id, int rank, int size,
                                   Limit limit)
    : wait_(wait), rank_(rank), size_(size) {
  ncclConfig_t settings = config();
  start(ncclCommInitRankConfig(&comm_, size, id, rank, &settings), "ncclCommInitRankConfig", limit);
}

// The parent's connections carry the ranks' addresses: no second meeting through an id is needed.
// Without `splitShare` the two have channels of their own and may run at the same time.
NcclCommunicator::NcclCommunicator(NcclCommunicator& parent, int most_blocks)
    : wait_(parent.wait_), rank_(parent.rank_), size_(parent.size_) {
  ncclConfig_t settings = config();
  settings.maxCTAs = most_blocks;
  parent.finish(ncclCommSplit(parent.comm_, 0, rank_, &comm_, &settings), {"ncclCommSplit"});
  start(comm_ == nullptr ? ncclInternalError : ncclInProgress, "ncclCommSplit", kNcclLimit);
}

void NcclCommunicator::start(ncclResult_t status, const char* name, Limit limit) {
  // No destructor will run.
  try {
    finish(status, {name}, limit);
  } catch (...) {
    abort();
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;  // given up
  if (failed_ || std::uncaught_exceptions() > 0) {
    abort();
    return;
  }
  // There is nobody left to tell.
  if (settle(ncclCommFinalize(comm_), kNcclLimit) == ncclSuccess)
    static_cast<void>(ncclCommDestroy(comm_));
  else
    abort();
}

void NcclCommunicator::finish(ncclResult_t status, const NcclCall& call, Limit limit) {
  last_ = call;
  status = settle(status, limit);
  if (status == ncclInProgress) {
    abort();
    fail(ErrorKind::comm, "rank ", rank_, " of ", size_, " in its group: ", call.name,
         peer_text(call), ": not all ranks have answered in ",
         static_cast<double>(limit.count()) / 1000, " s");
  }
  if (status != ncclSuccess) fail_with(status, call);
}

// What a call comes to; ncclInProgress where that is not known within the limit.
ncclResult_t NcclCommunicator::settle(ncclResult_t status, Limit limit) {
  if (status != ncclInProgress) return status;
  // Most calls are carried out by a thread of the library in a few microseconds.
  constexpr auto kSoon = std::chrono::milliseconds(1);
  const HostWait::Mark mark(wait_);
  const Clock::time_point begin = Clock::now();
  for (;;) {
    status = state();
    const auto waited = Clock::now() - begin;
    if (status != ncclInProgress || waited > limit) return status;
    if (waited < kSoon)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void NcclCommunicator::check() {
  const ncclResult_t status = state();
  if (status != ncclSuccess && status != ncclInProgress) fail_with(status, last_);
}

void NcclCommunicator::abort() noexcept {
  if (comm_ == nullptr) return;
  static_cast<void>(ncclCommAbort(comm_));
  comm_ = nullptr;
}

ncclResult_t NcclCommunicator::state() const {
  if (comm_ == nullptr) return ncclInvalidUsage;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t status = ncclCommGetAsyncError(comm_, &state);
  return status == ncclSuccess ? state : status;
}

void NcclCommunicator::fail_with(ncclResult_t status, const NcclCall& call) {
  failed_ = true;
  const char* detail = comm_ == nullptr ? nullptr : ncclGetLastError(comm_);
  const bool told = detail != nullptr && *detail != '\0';
  // Which is what a communicator says that found no memory for its buffers.
  const std::string memory = status == ncclUnhandledCudaError ? "; " + free_memory_text() : "";
  fail(ErrorKind::comm, "rank ", rank_, " of ", size_, " in its group: ", call.name,
       peer_text(call), ", ", call.bytes, " bytes: ", ncclGetErrorString(status), told ? ": " : "",
       told ? detail : "", memory);
}

}  // namespace fathom::gpu
