#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mpi.h>

#include "comm/communicator.h"

namespace fathom::comm {

/// All-reduce between the ranks of one node through memory that they share. MPI's own moves a large
/// message several times through main memory; here a piece is copied in, reduced and copied out
/// while it is in the cache. Each rank reduces its slice of every piece, adding the ranks in the
/// order 0, 1, 2, ..., so the result is the same for any piece size.
///
/// Work is done only inside advance(), which never blocks; operations end in the order of their
/// start.
class SharedReducer {
 public:
  /// nullptr when the ranks of `comm` do not all share memory. Takes about `bytes` of it, once for
  /// all ranks. Collective; throws Error(comm).
  static std::unique_ptr<SharedReducer> make(MPI_Comm comm, std::size_t bytes);
  ~SharedReducer();
  SharedReducer(const SharedReducer&) = delete;
  SharedReducer& operator=(const SharedReducer&) = delete;

  /// Adds an operation on `data`, which belongs to the caller and must stay until done(). Every
  /// rank starts the same operations in the same order. Returns its number.
  std::uint64_t start(float* data, std::size_t n, ReduceOp op);
  bool done(std::uint64_t operation) const { return operation < finished_operations_; }

  /// Does what can be done now. Returns whether that was anything.
  bool advance();
  /// Advances until done; lets MPI progress and yields the core while it must wait for a peer.
  void wait(std::uint64_t operation);
  /// Forgets all operations, for a rank that failed.
  void abandon() noexcept { operations_.clear(); }

 private:
  /// Counters of pieces, one cache line per rank and stage. Each is written by its own rank only.
  enum Stage { copied_in, reduced, copied_out };
  struct alignas(64) Counter {
    std::uint64_t pieces;
  };
  struct Operation {
    float* data;
    std::size_t n;
    ReduceOp op;
    std::uint64_t first_piece;
    std::uint64_t pieces;
  };
  /// A piece of the front operation.
  struct Piece {
    float* data;
    std::size_t n;
    std::size_t begin(int rank, int ranks) const {
      return n * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks);
    }
  };

  SharedReducer(MPI_Comm comm, int rank, int ranks, std::size_t piece_floats);

  Counter& counter(int rank, Stage stage) { return counters_[rank * 3 + stage]; }
  bool all_reached(Stage stage, std::uint64_t pieces);
  void publish(Stage stage);
  float* slot(int rank, std::uint64_t piece);
  Piece piece(std::uint64_t number) const;

  void copy_in(std::uint64_t number);
  void reduce(std::uint64_t number);
  void copy_out(std::uint64_t number);

  MPI_Comm comm_;
  int rank_;
  int ranks_;
  std::size_t piece_floats_;
  MPI_Win window_ = MPI_WIN_NULL;
  Counter* counters_ = nullptr;
  float* slots_ = nullptr;

  std::uint64_t mine_[3] = {0, 0, 0};  ///< this rank's counters
  std::uint64_t started_pieces_ = 0;
  std::uint64_t started_operations_ = 0;
  std::uint64_t finished_operations_ = 0;
  std::deque<Operation> operations_;
};

/// An all-reduce of the reducer as a Request.
class SharedReduceRequest final : public Request::State {
 public:
  SharedReduceRequest(std::shared_ptr<SharedReducer> reducer, std::uint64_t operation)
      : reducer_(std::move(reducer)), operation_(operation) {}
  void wait() override { reducer_->wait(operation_); }
  bool test() override {
    while (!reducer_->done(operation_) && reducer_->advance()) {
    }
    return reducer_->done(operation_);
  }
  void abandon() noexcept override { reducer_->abandon(); }

 private:
  std::shared_ptr<SharedReducer> reducer_;
  std::uint64_t operation_;
};

}  // namespace fathom::comm
