#include "core/stop_signal.h"

#include <atomic>
#include <csignal>
#include <pthread.h>
#include <thread>

#include "core/error.h"

namespace fathom {
namespace {

// A signal handler may touch nothing but a lock-free atomic.
std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void remember_signal(int signal) {
  received.store(signal, std::memory_order_relaxed);
}

// The signals, blocked from here on in this thread and those that it starts; the mask survives
// exec.
sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGUSR1, SIGTERM}) sigaddset(&signals, signal);
  FATHOM_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0, "pthread_sigmask");
  return signals;
}

}  // namespace

// No handler may run on a thread that computes: oneDNN's generated matrix products use the stack
// pointer as one more register, so that the frame of a handler overwrites whatever it points at.
// A thread of its own takes the signals. The handler is for threads of libraries that were there
// before (OpenBLAS starts some when it is loaded), for which nothing is blocked.
void catch_stop_signals() {
  static const bool caught = [] {
    struct sigaction action {};
    action.sa_handler = remember_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (const int signal : {SIGUSR1, SIGTERM})
      FATHOM_CHECK(sigaction(signal, &action, nullptr) == 0, "sigaction ", signal);
    std::thread([signals = block_stop_signals()] {
      for (int signal = 0;;)
        if (sigwait(&signals, &signal) == 0) remember_signal(signal);
    }).detach();
    return true;
  }();
  static_cast<void>(caught);
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
