#include "train/faults.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/stop_signal.h"

namespace fathom::train {
namespace {

constexpr std::string_view kActions[] = {
    // Of a run, as the watchdog names them.
    "load", "batches", "generate", "recv_bundle", "forward", "send_bundle", "finish_bundle",
    "recv_grad", "backward", "send_grad", "finish_grad", "update", "evaluate", "save", "finalize",
    // Of a save (checkpoints/FORMAT.md).
    "shard created", "shard half written", "shard written", "all shards written",
    "manifest written", "published", "latest written", "pruning", "pruned renamed", "pruned half",
    "pruned"};

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// No file of this process may grow any more: to a writer, a full disk.
void fill_disk() {
  files::ignore_file_size_signal();
  rlimit limit{};
  FATHOM_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0, "getrlimit");
  limit.rlim_cur = 0;
  FATHOM_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
}

/// Returns once the signal is known, so that what is asked of a run at an action holds from there.
void ask_to_stop(int signal) {
  FATHOM_CHECK(::kill(::getpid(), signal) == 0, "kill ", signal);
  while (stop_signal() == 0) sleep_for(0.001);
}

bool sends(std::string_view action) {
  return action.starts_with("send_");
}

}  // namespace

bool is_fault_action(std::string_view action) {
  return std::find(std::begin(kActions), std::end(kActions), action) != std::end(kActions);
}

FaultInjector::FaultInjector(const FaultsConfig& config, int rank)
    : config_(config),
      pending_(config.kind != FaultKind::none && config.rank == rank),
      slow_(pending_ && config.kind == FaultKind::slow_link) {}

void FaultInjector::reached(std::int64_t step, std::string_view action) {
  if (slow_) {
    if (step < config_.step || !sends(action)) return;
    pending_ = false;
    sleep_for(config_.seconds);
    return;
  }
  if (!pending_.load(std::memory_order_relaxed)) return;
  if (step != config_.step || action != config_.action || !pending_.exchange(false)) return;
  log_warn("injected fault in step ", step, " at ", action);
  strike();
}

bool FaultInjector::poisons(std::int64_t step) const {
  return pending_ && config_.kind == FaultKind::nan && step == config_.step;
}

void FaultInjector::strike() {
  switch (config_.kind) {
    case FaultKind::freeze:
      std::raise(SIGSTOP);
      return;
    case FaultKind::stall:
      sleep_for(config_.seconds);
      return;
    case FaultKind::kill:
      std::raise(SIGKILL);
      return;
    case FaultKind::usr1:
      ask_to_stop(SIGUSR1);
      return;
    case FaultKind::term:
      ask_to_stop(SIGTERM);
      return;
    case FaultKind::failed_write:
      fail(ErrorKind::io, "write failed (faults.kind = failed_write)");
    case FaultKind::full_disk:
      fill_disk();
      return;
    case FaultKind::none:
    case FaultKind::nan:
    case FaultKind::slow_link:
      return;
  }
}

}  // namespace fathom::train
