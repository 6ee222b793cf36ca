// Run on two ranks by watchdog_test: at step 3 rank 1 stops itself and rank 0 waits for it.

#include <csignal>
#include <cstdio>
#include <unistd.h>

#include "comm/mpi/mpi_session.h"
#include "comm/watchdog.h"
#include "core/error.h"

int main() {
  using namespace fathom;
  comm::MpiSession session;
  auto& world = session.world();
  comm::Watchdog watchdog(str("rank ", world.rank()), std::chrono::milliseconds(500),
                          [&] { session.abort(exit_code(ErrorKind::comm)); });
  const int peer = 1 - world.rank();
  for (int step = 0; step < 5; ++step) {
    if (step == 3 && world.rank() == 1) {
      std::printf("stopping pid %d\n", static_cast<int>(getpid()));
      std::fflush(stdout);
      raise(SIGSTOP);
    }
    watchdog.note({.step = step, .name = "recv", .peer = peer, .tag = 0});
    int out = step, in = -1;
    auto receive = world.start_recv(&in, sizeof in, peer, 0);
    world.start_send(&out, sizeof out, peer, 0).wait();
    receive.wait();
  }
}
