#include <cstring>
#include <deque>

#include "comm/communicator.h"
#include "core/error.h"

namespace fathom::comm {
namespace {

/// One side of a transfer that waits for the other.
struct Half {
  void* data;
  std::size_t bytes;
  int tag;
  bool done = false;
};
using HalfPtr = std::shared_ptr<Half>;

struct Mailbox {
  std::deque<HalfPtr> sends;
  std::deque<HalfPtr> receives;
};

class SelfRequest final : public Request::State {
 public:
  SelfRequest(HalfPtr half, const char* kind) : half_(std::move(half)), kind_(kind) {}

  void wait() override {
    require(half_->done, ErrorKind::comm, "a ", kind_, " to itself (tag ", half_->tag, ", ",
            half_->bytes, " bytes) would wait forever: its partner was never started");
  }
  bool test() override { return half_->done; }
  void abandon() noexcept override {}

 private:
  HalfPtr half_;
  const char* kind_;
};

class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() override {}
  void all_reduce(float*, std::size_t, ReduceOp) override {}
  void all_reduce(double*, std::size_t, ReduceOp) override {}
  void all_reduce(std::int64_t*, std::size_t, ReduceOp) override {}
  Request start_all_reduce(float*, std::size_t, ReduceOp) override { return {}; }
  void broadcast(void*, std::size_t, int root) override { check_peer(root, "broadcast"); }

  void all_gather(const void* send, std::size_t bytes, void* recv) override {
    if (bytes > 0) std::memmove(recv, send, bytes);
  }
  void reduce_scatter(const float* send, float* recv, std::size_t n) override {
    if (n > 0) std::memmove(recv, send, n * sizeof(float));
  }

  Request start_send(const void* data, std::size_t bytes, int peer, int tag) override {
    check_peer(peer, "send");
    // The send half is only ever read from; Half keeps one pointer type for both directions.
    const auto send = std::make_shared<Half>(Half{const_cast<void*>(data), bytes, tag});
    if (const HalfPtr receive = take(mailbox_.receives, tag)) {
      deliver(*send, *receive);
    } else {
      mailbox_.sends.push_back(send);
    }
    return Request(std::make_unique<SelfRequest>(send, "send"));
  }

  Request start_recv(void* data, std::size_t bytes, int peer, int tag) override {
    check_peer(peer, "receive");
    const auto receive = std::make_shared<Half>(Half{data, bytes, tag});
    if (const HalfPtr send = take(mailbox_.sends, tag)) {
      deliver(*send, *receive);
    } else {
      mailbox_.receives.push_back(receive);
    }
    return Request(std::make_unique<SelfRequest>(receive, "receive"));
  }

  std::unique_ptr<Communicator> split(int color, int) override {
    return color < 0 ? nullptr : self_communicator();
  }

 private:
  static void check_peer(int peer, const char* call) {
    require(peer == 0, ErrorKind::comm, call, " with rank ", peer, " in a group of one rank");
  }

  /// Removes and returns the oldest half with this tag, or nullptr.
  static HalfPtr take(std::deque<HalfPtr>& waiting, int tag) {
    for (auto it = waiting.begin(); it != waiting.end(); ++it) {
      if ((*it)->tag != tag) continue;
      HalfPtr found = *it;
      waiting.erase(it);
      return found;
    }
    return nullptr;
  }

  static void deliver(Half& send, Half& receive) {
    require(send.bytes == receive.bytes, ErrorKind::comm, "tag ", send.tag, ": a receive of ",
            receive.bytes, " bytes met a send of ", send.bytes, " bytes");
    if (send.bytes > 0) std::memmove(receive.data, send.data, send.bytes);
    send.done = receive.done = true;
  }

  Mailbox mailbox_;
};

}  // namespace

std::unique_ptr<Communicator> self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

}  // namespace fathom::comm
