#include "gpu/host_wait.h"

#include <chrono>
#include <thread>
#include <utility>

#include "gpu/check.h"

namespace fathom::gpu {
namespace {

using Clock = std::chrono::steady_clock;

// Most waits are for work of less than a millisecond, and are worth a core that does nothing else.
constexpr auto kCheckEvery = std::chrono::milliseconds(1);

struct Flag {
  explicit Flag(std::atomic<bool>& flag) : raised(flag) { raised = true; }
  ~Flag() { raised = false; }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;
  std::atomic<bool>& raised;
};

}  // namespace

void HostWait::until(cudaEvent_t event) {
  const Flag flag(waiting_);
  Clock::time_point next = Clock::now() + kCheckEvery;
  for (;;) {
    const cudaError_t state = cudaEventQuery(event);
    if (state != cudaErrorNotReady) {
      FATHOM_CUDA(state);
      return;
    }
    std::this_thread::yield();
    if (Clock::now() < next) continue;
    for (const auto& [id, check] : checks_) check();
    next = Clock::now() + kCheckEvery;
  }
}

int HostWait::add_check(std::function<void()> check) {
  checks_.emplace(next_id_, std::move(check));
  return next_id_++;
}

}  // namespace fathom::gpu
