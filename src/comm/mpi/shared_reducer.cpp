#include "comm/mpi/shared_reducer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <sched.h>

#include "comm/mpi/mpi_check.h"
#include "core/error.h"

namespace fathom::comm {
namespace {

/// Pieces in flight: while a rank waits for its peers with one, it copies the next ones in.
constexpr std::uint64_t kSlots = 4;
constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// sums[i] = sums[i] op values[i]
void combine(float* sums, const float* values, std::size_t n, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      for (std::size_t i = 0; i < n; ++i) sums[i] += values[i];
      return;
    case ReduceOp::max:
      for (std::size_t i = 0; i < n; ++i) sums[i] = std::max(sums[i], values[i]);
      return;
    case ReduceOp::min:
      for (std::size_t i = 0; i < n; ++i) sums[i] = std::min(sums[i], values[i]);
      return;
  }
}

bool ranks_share_memory(MPI_Comm comm, int ranks) {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), comm,
            {"MPI_Comm_split_type"});
  int node_ranks = 0;
  check_mpi(MPI_Comm_size(node, &node_ranks), comm, {"MPI_Comm_size"});
  check_mpi(MPI_Comm_free(&node), comm, {"MPI_Comm_free"});
  // Every rank must come to the same answer: on two nodes of 1 and 3 ranks none has all four.
  return node_ranks == ranks;
}

}  // namespace

std::unique_ptr<SharedReducer> SharedReducer::make(MPI_Comm comm, std::size_t bytes) {
  int rank = 0, ranks = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), comm, {"MPI_Comm_rank"});
  check_mpi(MPI_Comm_size(comm, &ranks), comm, {"MPI_Comm_size"});
  if (!ranks_share_memory(comm, ranks)) return nullptr;
  const std::size_t slots = static_cast<std::size_t>(ranks) * kSlots;
  const std::size_t floats = std::max<std::size_t>(1, bytes / slots / sizeof(float));
  return std::unique_ptr<SharedReducer>(new SharedReducer(comm, rank, ranks, floats));
}

SharedReducer::SharedReducer(MPI_Comm comm, int rank, int ranks, std::size_t piece_floats)
    : comm_(comm), rank_(rank), ranks_(ranks), piece_floats_(piece_floats) {
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t counter_bytes = round_up(count * 3 * sizeof(Counter), kPage);
  const std::size_t slot_bytes = count * kSlots * piece_floats * sizeof(float);
  const std::size_t bytes = kPage + counter_bytes + slot_bytes;
  void* own = nullptr;
  const int code = MPI_Win_allocate_shared(rank == 0 ? static_cast<MPI_Aint>(bytes) : 0, 1,
                                           MPI_INFO_NULL, comm, &own, &window_);
  require(code == MPI_SUCCESS, ErrorKind::comm, "no shared memory of ", bytes,
          " bytes for a group of ", ranks,
          " ranks: /dev/shm is full or too small (in a container, start it with --shm-size)");
  const CallSite site{"MPI_Win_shared_query", bytes};
  MPI_Aint size = 0;
  int unit = 0;
  void* base = nullptr;
  check_mpi(MPI_Win_shared_query(window_, 0, &size, &unit, &base), comm, site);
  char* aligned = reinterpret_cast<char*>(round_up(reinterpret_cast<std::uintptr_t>(base), kPage));
  counters_ = reinterpret_cast<Counter*>(aligned);
  slots_ = reinterpret_cast<float*>(aligned + counter_bytes);
  if (rank == 0) std::memset(counters_, 0, counter_bytes);
  check_mpi(MPI_Barrier(comm), comm, {"MPI_Barrier"});
}

SharedReducer::~SharedReducer() {
  // Freeing is collective, so a failing rank leaves it to the end of the process.
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized && std::uncaught_exceptions() == 0) MPI_Win_free(&window_);
}

std::uint64_t SharedReducer::start(float* data, std::size_t n, ReduceOp op) {
  FATHOM_CHECK(n > 0, "an all-reduce of nothing");
  const std::uint64_t pieces = (n + piece_floats_ - 1) / piece_floats_;
  operations_.push_back({data, n, op, started_pieces_, pieces});
  started_pieces_ += pieces;
  return started_operations_++;
}

bool SharedReducer::advance() {
  if (operations_.empty()) return false;
  const Operation& front = operations_.front();
  const std::uint64_t end = front.first_piece + front.pieces;
  // What is furthest along goes first: it is still in the cache, and peers wait for it.
  if (mine_[copied_out] < mine_[reduced] && all_reached(reduced, mine_[copied_out] + 1)) {
    copy_out(mine_[copied_out]);
    publish(copied_out);
    if (mine_[copied_out] == end) {
      operations_.pop_front();
      ++finished_operations_;
    }
    return true;
  }
  if (mine_[reduced] < mine_[copied_in] && all_reached(copied_in, mine_[reduced] + 1)) {
    reduce(mine_[reduced]);
    publish(reduced);
    return true;
  }
  const std::uint64_t next = mine_[copied_in];
  if (next < end && (next < kSlots || all_reached(copied_out, next + 1 - kSlots))) {
    copy_in(next);
    publish(copied_in);
    return true;
  }
  return false;
}

void SharedReducer::wait(std::uint64_t operation) {
  int idle = 0;
  while (!done(operation)) {
    if (advance()) {
      idle = 0;
    } else if (++idle > 200) {
      // A peer may be busy with a message from this rank, which moves only inside an MPI call.
      int arrived = 0;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &arrived, MPI_STATUS_IGNORE), comm_,
                {"MPI_Iprobe"});
      sched_yield();
    }
  }
}

bool SharedReducer::all_reached(Stage stage, std::uint64_t pieces) {
  for (int r = 0; r < ranks_; ++r) {
    const std::atomic_ref<std::uint64_t> reached(counter(r, stage).pieces);
    if (reached.load(std::memory_order_acquire) < pieces) return false;
  }
  return true;
}

void SharedReducer::publish(Stage stage) {
  const std::atomic_ref<std::uint64_t> own(counter(rank_, stage).pieces);
  own.store(++mine_[stage], std::memory_order_release);
}

float* SharedReducer::slot(int rank, std::uint64_t piece) {
  const std::uint64_t index = static_cast<std::uint64_t>(rank) * kSlots + piece % kSlots;
  return slots_ + index * piece_floats_;
}

SharedReducer::Piece SharedReducer::piece(std::uint64_t number) const {
  const Operation& front = operations_.front();
  const std::size_t offset = (number - front.first_piece) * piece_floats_;
  return {front.data + offset, std::min(piece_floats_, front.n - offset)};
}

/// Own slices need no copy: their only reader is this rank.
void SharedReducer::copy_in(std::uint64_t number) {
  const Piece p = piece(number);
  const std::size_t begin = p.begin(rank_, ranks_), end = p.begin(rank_ + 1, ranks_);
  float* to = slot(rank_, number);
  std::memcpy(to, p.data, begin * sizeof(float));
  std::memcpy(to + end, p.data + end, (p.n - end) * sizeof(float));
}

/// The result goes to this rank's slot, for the peers, and to its data.
void SharedReducer::reduce(std::uint64_t number) {
  constexpr std::size_t kBlock = 1024;
  float sums[kBlock];
  const Piece p = piece(number);
  const ReduceOp op = operations_.front().op;
  const std::size_t end = p.begin(rank_ + 1, ranks_);
  for (std::size_t at = p.begin(rank_, ranks_); at < end; at += kBlock) {
    const std::size_t n = std::min(kBlock, end - at);
    for (int r = 0; r < ranks_; ++r) {
      const float* values = (r == rank_ ? p.data : slot(r, number)) + at;
      if (r == 0) {
        std::memcpy(sums, values, n * sizeof(float));
      } else {
        combine(sums, values, n, op);
      }
    }
    std::memcpy(slot(rank_, number) + at, sums, n * sizeof(float));
    std::memcpy(p.data + at, sums, n * sizeof(float));
  }
}

void SharedReducer::copy_out(std::uint64_t number) {
  const Piece p = piece(number);
  for (int r = 0; r < ranks_; ++r) {
    if (r == rank_) continue;
    const std::size_t begin = p.begin(r, ranks_), end = p.begin(r + 1, ranks_);
    std::memcpy(p.data + begin, slot(r, number) + begin, (end - begin) * sizeof(float));
  }
}

}  // namespace fathom::comm
