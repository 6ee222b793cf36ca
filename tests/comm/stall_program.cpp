// Run on two ranks by watchdog_test: at step 3 rank 1 stops itself, or ("vanish" as the second
// argument) dies, and rank 0 waits for what its device should get. Reports go to the folder in the
// first argument.

#include <csignal>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include "comm/device_communicator.h"
#include "comm/mpi/mpi_session.h"
#include "comm/watched_communicator.h"
#include "core/error.h"
#include "core/tensor.h"
#include "kernels/backend.h"

int main(int argc, char** argv) {
  using namespace fathom;
  comm::MpiSession session;
  const int rank = session.world().rank();
  const int signal = argc > 2 && std::strcmp(argv[2], "vanish") == 0 ? SIGKILL : SIGSTOP;
  const auto device = kernels::make_device({.limit_bytes = 1 << 20, .index = rank});
  comm::Watchdog watchdog({.rank = rank, .ranks = 2, .host = session.host(), .folder = argv[1]},
                          std::chrono::seconds(1),
                          [&] { session.abort(exit_code(ErrorKind::comm)); });
  watchdog.watch_device(*device);
  const auto world = comm::watch(session.world(), watchdog);
  const auto group =
      comm::on_devices(world->split(0, rank), *device, comm::DeviceTraffic::messages_too);
  for (int step = 0; step < 5; ++step) {
    if (step == 3 && rank == 1) {
      std::printf("stopping pid %d\n", static_cast<int>(getpid()));
      std::fflush(stdout);
      raise(signal);
    }
    watchdog.note({.step = step, .name = "exchange"});
    const Tensor out = Tensor::from_host(*device, {1}, std::vector<float>{1});
    const Tensor in = Tensor::empty(*device, {1});
    const KernelScope scope(*device);
    auto sent = group->start_send(out.ptr<float>(), out.bytes(), 1 - rank, 6);
    group->start_recv(in.ptr<float>(), in.bytes(), 1 - rank, 6).wait();
    to_host(in);
    sent.wait();
  }
}
