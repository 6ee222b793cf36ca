#include "core/stop_signal.h"

#include <atomic>
#include <csignal>

#include "core/error.h"

namespace fathom {
namespace {

// A signal handler may touch nothing but a lock-free atomic.
std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void remember_signal(int signal) {
  received.store(signal, std::memory_order_relaxed);
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = remember_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGUSR1, SIGTERM})
    FATHOM_CHECK(sigaction(signal, &action, nullptr) == 0, "sigaction ", signal);
}

int stop_signal() {
  return received.load(std::memory_order_relaxed);
}

const char* stop_signal_name(int signal) {
  switch (signal) {
    case SIGUSR1:
      return "SIGUSR1";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "a signal";
  }
}

}  // namespace fathom
