// Run on two ranks by watchdog_test: at step 3 rank 1 stops itself and rank 0 waits for it. Reports
// go to the folder in the first argument.

#include <csignal>
#include <cstdio>
#include <unistd.h>

#include "comm/mpi/mpi_session.h"
#include "comm/watched_communicator.h"
#include "core/error.h"

int main(int, char** argv) {
  using namespace fathom;
  comm::MpiSession session;
  const int rank = session.world().rank();
  comm::Watchdog watchdog({.rank = rank, .ranks = 2, .host = session.host(), .folder = argv[1]},
                          std::chrono::seconds(1),
                          [&] { session.abort(exit_code(ErrorKind::comm)); });
  const auto world = comm::watch(session.world(), watchdog);
  for (int step = 0; step < 5; ++step) {
    if (step == 3 && rank == 1) {
      std::printf("stopping pid %d\n", static_cast<int>(getpid()));
      std::fflush(stdout);
      raise(SIGSTOP);
    }
    watchdog.note({.step = step, .name = "exchange"});
    int out = step, in = -1;
    auto receive = world->start_recv(&in, sizeof in, 1 - rank, 6);
    world->start_send(&out, sizeof out, 1 - rank, 6).wait();
    receive.wait();
  }
}
