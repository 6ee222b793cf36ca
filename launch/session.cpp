#include "launch/session.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <new>
#include <sched.h>
#include <string_view>
#include <thread>

#include "comm/device_choice.h"
#include "core/log.h"
#include "core/memory_usage.h"
#include "core/stop_signal.h"
#include "kernels/threads.h"
#include "launch/backend_choice.h"
#include "launch/launch_report.h"

namespace fathom::launch {

void report(int rank, const std::string& message) {
  // Rank 0's report ends the job, which takes mpirun up to a second before MPI has started; whoever
  // still lives after this long has something else to say.
  if (rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  logger().end_status();
  std::cerr << "fathom: " << (rank != 0 ? "rank " + std::to_string(rank) + ": " : "") << message
            << std::endl;
}

Failure current_failure() {
  const auto failure = [](ErrorKind kind, std::string_view message) {
    return Failure{kind, str(to_string(kind), ": ", message)};
  };
  try {
    throw;
  } catch (const Error& error) {
    return failure(error.kind(), error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    std::string_view text = error.what();
    constexpr std::string_view kOpening = "filesystem error: ";
    if (text.starts_with(kOpening)) text.remove_prefix(kOpening.size());
    return failure(ErrorKind::io, text);
  } catch (const std::bad_alloc&) {
    return failure(ErrorKind::config,
                   "out of host memory: take smaller batches or models, or more ranks");
  } catch (const std::exception& error) {
    return failure(ErrorKind::internal, error.what());
  } catch (...) {
    return failure(ErrorKind::internal, "an exception that says nothing");
  }
}

int report_stop(int signal) {
  log_info("stopped by ", stop_signal_name(signal),
           " before the end; the same command starts anew");
  return kStoppedExitCode;
}

int run_distributed(std::int64_t ranks, double watch_seconds,
                    const std::function<int(comm::MpiSession&)>& body) {
  comm::MpiSession session({.watch_seconds = watch_seconds});
  const int rank = session.world().rank();
  logger().set_rank(rank, session.world().size());
  try {
    comm::check_rank_count(session.launch(), session.world().size(), static_cast<int>(ranks));
    return body(session);
  } catch (const Stopped& asked) {
    return report_stop(asked.signal);
  } catch (...) {
    const Failure failure = current_failure();
    report(rank, failure.message);
    if (session.world().size() > 1) session.abort(exit_code(failure.kind));
    return exit_code(failure.kind);
  }
}

namespace {

int choose_threads(comm::MpiSession& session, int wanted) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  const int cores = std::max(1, CPU_COUNT(&mask));
  const int machine = static_cast<int>(std::thread::hardware_concurrency());
  const int neighbours = session.node().size();
  // Ranks that may run anywhere share the machine; ranks bound apart have their cores to
  // themselves.
  const int own = cores == machine ? std::max(1, cores / neighbours) : cores;
  const int threads = wanted > 0 ? wanted : own;
  kernels::set_threads(threads);
  return threads;
}

std::string device_text(int index, kernels::Precision precision) {
  if (kernels::device_count() == 0) return kernels::backend().name;
  const char* products[] = {"f32", "tf32", "bf16"};
  return str(kernels::backend().name, " ", index, " (", kernels::device_identity(index),
             "), products in ", products[static_cast<int>(precision)]);
}

// The CPU's memory is everybody's, and nobody is told when it ends.
std::size_t limit_of(comm::MpiSession& session, std::size_t wanted) {
  if (wanted > 0 || kernels::backend().owns_memory) return wanted;
  return static_cast<std::size_t>(available_memory() / session.node().size());
}

template <typename Options>
DeviceRequest request_of(const Options& options) {
  constexpr double kGiB = 1 << 30;
  return {.threads = options.threads,
          .limit_bytes = static_cast<std::size_t>(options.memory_limit_gib * kGiB),
          .precision = options.precision};
}

}  // namespace

DeviceRequest device_request(const options::Machine& machine) {
  return request_of(machine);
}

DeviceRequest device_request(const train::RunConfig& run) {
  return request_of(run);
}

std::unique_ptr<Device> open_device(comm::MpiSession& session, const DeviceRequest& request) {
  comm::agree_on_backend(session.world(), {session.host(), kernels::backend().name, why_no_gpu()});
  const int threads = choose_threads(session, request.threads);
  const int index = comm::choose_device(session.world(), session.node(), session.host());
  RankPlace place = find_place(session.world().rank(), session.host(), threads);
  place.device = device_text(index, request.precision);
  std::vector<RankPlace> places;
  for (const std::string& text : session.world().all_gather_text(to_json(place)))
    places.push_back(parse_place(text));
  if (session.world().rank() == 0)
    for (const std::string& warning : launch_warnings(places)) log_warn(warning);
  if (request.show) log_info("on ", kernels::backend().name, ": ", kernels::backend().details);
  if (request.show)
    for (const RankPlace& each : places) log_info(to_string(each));
  return kernels::make_device({.limit_bytes = limit_of(session, request.limit_bytes),
                               .alone = session.world().size() == 1,
                               .index = index,
                               .precision = request.precision});
}

}  // namespace fathom::launch
