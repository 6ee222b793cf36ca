#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fathom::comm {

enum class ReduceOp { sum, max, min };

/// A pending transfer. The buffers belong to the caller and must stay untouched until wait()
/// returns or test() says true. Destroying an unfinished request waits for it; only while an
/// exception unwinds the stack is it left behind, because a rank that fails must reach
/// MpiSession::abort without its peers' help.
class Request {
 public:
  struct State {
    virtual ~State() = default;
    virtual void wait() = 0;
    virtual bool test() = 0;
    /// Gives the transfer up without blocking.
    virtual void abandon() noexcept = 0;
  };
  Request() = default;
  explicit Request(std::unique_ptr<State> state) : state_(std::move(state)) {}
  Request(Request&&) noexcept = default;
  Request& operator=(Request&& other);
  ~Request();

  /// Blocks until the transfer is done. A default-made request is done.
  void wait();
  /// True when done; also lets the library make progress. Never blocks.
  bool test();

 private:
  std::unique_ptr<State> state_;
};

/// A group of ranks. All sizes are std::size_t and safe beyond 2^32 bytes: the backend splits what
/// its library cannot count. Calls marked collective must be made by every rank of the group, in
/// the same order. Every call throws Error(comm) that names the call, the peer and the size.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Collective; blocks.
  virtual void barrier() = 0;

  /// In place, element by element; collective; blocks. The order of a sum is the library's, the
  /// same for the same group and size.
  virtual void all_reduce(float* data, std::size_t n, ReduceOp op) = 0;
  virtual void all_reduce(double* data, std::size_t n, ReduceOp op) = 0;
  virtual void all_reduce(std::int64_t* data, std::size_t n, ReduceOp op) = 0;

  /// The same, started now and finished by the request. It need not move outside calls on the
  /// requests and all-reduces of this group: call test() now and then between computations, and let
  /// no peer's message depend on it before this rank waits.
  virtual Request start_all_reduce(float* data, std::size_t n, ReduceOp op) = 0;

  /// Whether a started all-reduce of a device's memory goes on beside the kernels that are launched
  /// after it, without further calls.
  virtual bool reduces_beside_kernels() const { return false; }

  /// Copies bytes from root to all; collective; blocks.
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;

  /// recv[r * bytes ...] = send of rank r; collective; blocks.
  virtual void all_gather(const void* send, std::size_t bytes, void* recv) = 0;

  /// recv[n] = the sum over ranks of their send[rank * n ...]; collective; blocks.
  virtual void reduce_scatter(const float* send, float* recv, std::size_t n) = 0;

  /// Point to point; the receiver must know the size. Tags are at least 0.
  virtual Request start_send(const void* data, std::size_t bytes, int peer, int tag) = 0;
  virtual Request start_recv(void* data, std::size_t bytes, int peer, int tag) = 0;

  /// Ranks with the same color form a group, ordered by key; collective. A rank that passes a
  /// negative color joins no group and gets nullptr.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// Told that the devices of this group do what a call asks, in their own time: for those who
  /// watch it. `name` must be a string literal; peer and tag are -1 for a collective.
  virtual void note_device_call(const char* /*name*/, int /*peer*/, int /*tag*/) {}

  /// Texts of any length from every rank, in rank order, on every rank; collective; blocks.
  std::vector<std::string> all_gather_text(const std::string& mine);
  /// Root's text on every rank; collective; blocks.
  std::string broadcast_text(const std::string& text, int root);
  /// True when `ok` is true on every rank; collective; blocks.
  bool all_agree(bool ok);
};

/// A group of one that needs no library: for tools, dry runs, tests, and grid axes of size 1. A
/// send to itself completes when its receive is posted; waiting for one that has no partner throws.
std::unique_ptr<Communicator> self_communicator();

}  // namespace fathom::comm
