#include "comm/watched_communicator.h"

namespace fathom::comm {
namespace {

using Call = Watchdog::Call;
using Group = Watchdog::Group;

/// A request whose wait is noted, as the call that `make_call()` returns.
template <typename MakeCall>
class WatchedRequest : public Request::State {
 public:
  WatchedRequest(Request inner, MakeCall make_call)
      : inner_(std::move(inner)), make_call_(std::move(make_call)) {}

  void wait() override {
    const Call call = make_call_();
    inner_.wait();
  }
  bool test() override { return inner_.test(); }
  /// The inner request is left behind by its own destructor, which follows.
  void abandon() noexcept override {}

 private:
  Request inner_;
  MakeCall make_call_;
};

template <typename MakeCall>
Request noted(Request inner, MakeCall make_call) {
  return Request(
      std::make_unique<WatchedRequest<MakeCall>>(std::move(inner), std::move(make_call)));
}

class WatchedCommunicator : public Communicator {
 public:
  /// `own` keeps the group alive if nobody else does.
  WatchedCommunicator(Communicator& inner, std::unique_ptr<Communicator> own, Watchdog& watchdog,
                      std::vector<int> members)
      : own_(std::move(own)),
        inner_(inner),
        watchdog_(watchdog),
        group_(watchdog.add_group(std::move(members))) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }

  void barrier() override {
    const Call call(&watchdog_, "barrier", group_);
    inner_.barrier();
  }
  void all_reduce(float* data, std::size_t n, ReduceOp op) override { reduce(data, n, op); }
  void all_reduce(double* data, std::size_t n, ReduceOp op) override { reduce(data, n, op); }
  void all_reduce(std::int64_t* data, std::size_t n, ReduceOp op) override { reduce(data, n, op); }

  Request start_all_reduce(float* data, std::size_t n, ReduceOp op) override {
    // The number that it has among the collectives of its group, whenever it is waited for.
    return noted(inner_.start_all_reduce(data, n, op),
                 [&watchdog = watchdog_, &group = group_, number = ++group_.collectives] {
                   return Call(&watchdog, "all-reduce", group, number);
                 });
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    const Call call(&watchdog_, "broadcast", group_);
    inner_.broadcast(data, bytes, root);
  }
  void all_gather(const void* send, std::size_t bytes, void* recv) override {
    const Call call(&watchdog_, "all-gather", group_);
    inner_.all_gather(send, bytes, recv);
  }
  void reduce_scatter(const float* send, float* recv, std::size_t n) override {
    const Call call(&watchdog_, "reduce-scatter", group_);
    inner_.reduce_scatter(send, recv, n);
  }
  Request start_send(const void* data, std::size_t bytes, int peer, int tag) override {
    return watched(inner_.start_send(data, bytes, peer, tag), "send", peer, tag);
  }
  Request start_recv(void* data, std::size_t bytes, int peer, int tag) override {
    return watched(inner_.start_recv(data, bytes, peer, tag), "receive", peer, tag);
  }
  std::unique_ptr<Communicator> split(int color, int key) override;

  void note_device_call(const char* name, int peer, int tag) override {
    watchdog_.note_device_call(name, group_, peer, tag);
  }

 private:
  template <typename T>
  void reduce(T* data, std::size_t n, ReduceOp op) {
    const Call call(&watchdog_, "all-reduce", group_);
    inner_.all_reduce(data, n, op);
  }
  Request watched(Request inner, const char* name, int peer, int tag) {
    return noted(std::move(inner), [&watchdog = watchdog_, &group = group_, name, peer, tag] {
      return Call(&watchdog, name, group, peer, tag);
    });
  }

  std::unique_ptr<Communicator> own_;
  Communicator& inner_;
  Watchdog& watchdog_;
  Group& group_;
};

std::unique_ptr<Communicator> WatchedCommunicator::split(int color, int key) {
  std::unique_ptr<Communicator> part;
  {
    const Call call(&watchdog_, "split", group_);
    part = inner_.split(color, key);
  }
  if (part == nullptr || part->size() == 1) return part;
  std::vector<int> members(static_cast<std::size_t>(part->size()));
  const int self = group_.members[static_cast<std::size_t>(rank())];
  part->all_gather(&self, sizeof self, members.data());
  Communicator& inner = *part;
  return std::make_unique<WatchedCommunicator>(inner, std::move(part), watchdog_,
                                               std::move(members));
}

}  // namespace

std::unique_ptr<Communicator> watch(Communicator& group, Watchdog& watchdog) {
  std::vector<int> members(static_cast<std::size_t>(group.size()));
  const int self = group.rank();
  group.all_gather(&self, sizeof self, members.data());
  return std::make_unique<WatchedCommunicator>(group, nullptr, watchdog, std::move(members));
}

}  // namespace fathom::comm
