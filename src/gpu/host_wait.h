#pragma once

#include <atomic>
#include <cuda_runtime.h>
#include <functional>
#include <map>

namespace fathom::gpu {

/// The one way in which the host waits for a device: it polls, so that what cannot come to an end
/// (a collective whose peer has gone) is noticed by the checks, each of which may end the wait by
/// throwing.
class HostWait {
 public:
  /// While it lives the host waits, in its holder's own way; see waiting().
  class Mark {
   public:
    explicit Mark(HostWait& wait) : wait_(wait), outer_(wait.waiting_.exchange(true)) {}
    ~Mark() { wait_.waiting_ = outer_; }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    HostWait& wait_;
    bool outer_;
  };

  /// Returns once the event has happened; see Device::host_waits() and waiting().
  void until(cudaEvent_t event);

  /// `check` is called about once in a millisecond of every wait that is longer.
  int add_check(std::function<void()> check);
  void remove_check(int id) noexcept { checks_.erase(id); }

  /// Whether the host is waiting; any thread may ask.
  bool waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }

 private:
  std::map<int, std::function<void()>> checks_;
  int next_id_ = 0;
  std::atomic<bool> waiting_ = false;
};

}  // namespace fathom::gpu
