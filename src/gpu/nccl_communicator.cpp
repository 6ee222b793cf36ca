#include "gpu/nccl_communicator.h"

#include <exception>
#include <thread>

#include "core/error.h"

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

NcclCommunicator::NcclCommunicator(const ncclUniqueId& id, int rank, int size,
                                   std::chrono::milliseconds limit)
    : rank_(rank), size_(size) {
  ncclConfig_t settings = config();
  await_start(ncclCommInitRankConfig(&comm_, size, id, rank, &settings), "ncclCommInitRankConfig",
              limit);
}

// The parent's connections carry the ranks' addresses: no second meeting through an id is needed.
// Without `splitShare` the two have channels of their own and may run at the same time.
NcclCommunicator::NcclCommunicator(NcclCommunicator& parent, int most_blocks)
    : rank_(parent.rank_), size_(parent.size_) {
  ncclConfig_t settings = config();
  settings.maxCTAs = most_blocks;
  parent.finish(ncclCommSplit(parent.comm_, 0, rank_, &comm_, &settings), {"ncclCommSplit"});
  await_start(comm_ == nullptr ? ncclInternalError : ncclInProgress, "ncclCommSplit",
              kNcclStartLimit);
}

void NcclCommunicator::await_start(ncclResult_t status, const char* name,
                                   std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (status == ncclInProgress) {
    status = state();
    if (status != ncclInProgress) break;
    if (Clock::now() > deadline) {
      abort();
      fail(ErrorKind::comm, "rank ", rank_, " of ", size_, " in its group: ", name,
           ": not all ranks have answered in ", static_cast<double>(limit.count()) / 1000, " s");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  // No destructor will run.
  try {
    finish(status, {name});
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
  ncclResult_t status = ncclCommFinalize(comm_);
  while (status == ncclInProgress) {
    std::this_thread::yield();
    status = state();
  }
  // There is nobody left to tell.
  static_cast<void>(status == ncclSuccess ? ncclCommDestroy(comm_) : ncclCommAbort(comm_));
}

void NcclCommunicator::finish(ncclResult_t status, const NcclCall& call) {
  last_ = call;
  while (status == ncclInProgress) {
    std::this_thread::yield();
    status = state();
  }
  if (status != ncclSuccess) fail_with(status, call);
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
  fail(ErrorKind::comm, "rank ", rank_, " of ", size_, " in its group: ", call.name,
       peer_text(call), ", ", call.bytes, " bytes: ", ncclGetErrorString(status), told ? ": " : "",
       told ? detail : "");
}

}  // namespace fathom::gpu
