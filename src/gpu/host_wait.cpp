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

}  // namespace

void HostWait::until(cudaEvent_t event) {
  const Mark mark(*this);
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
