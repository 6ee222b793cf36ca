#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/mpi/mpi_session.h"
#include "comm/process_grid.h"
#include "core/device.h"
#include "core/error.h"
#include "kernels/backend.h"
#include "launch/options/shared.h"
#include "train/config.h"

namespace fathom::launch {

/// Prints an error on standard error: rank 0 at once, other ranks a moment later, so that an error
/// which all ranks share is seen once and one that a single rank has is seen too.
void report(int rank, const std::string& message);

/// What to tell of an exception, and the kind that fixes the exit code.
struct Failure {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
};

/// Of the exception that is being handled. What the standard library throws for files is an io
/// error and memory that cannot be had one of configuration, as if found by ourselves; anything
/// else that is no Error is a broken promise.
Failure current_failure();

/// Says that a command was stopped before it had anything to show; the exit code for it.
int report_stop(int signal);

/// Starts MPI, checks that `ranks` came up, and runs the body. An error on any rank ends the whole
/// job with that error's exit code. Returns the body's exit code, or kStoppedExitCode for a body
/// that throws Stopped on every rank. The start, until the body has made its WatchedWorld, and the
/// end may each take `watch_seconds`; 0 watches neither.
int run_distributed(std::int64_t ranks, double watch_seconds,
                    const std::function<int(comm::MpiSession&)>& body);

/// What a rank is to compute with.
struct DeviceRequest {
  int threads = 0;              ///< 0: the cores that it is bound to, or its share of the node's
  std::size_t limit_bytes = 0;  ///< of the device's memory; 0: what is free, shared by the node's
                                ///< ranks where it is the machine's
  kernels::Precision precision = kernels::Precision::f32;
  bool show = false;  ///< log the backend and every rank's place
};

/// What the options of a command ask for.
DeviceRequest device_request(const options::Machine& machine);
/// What a recipe asks for.
DeviceRequest device_request(const train::RunConfig& run);

/// Sets this rank's thread count and opens its device, for GPUs the one of its number on the node.
/// Warns about what is known to make such a launch slow. Collective. Throws Error(config) on every
/// rank when they are not on one backend, or a rank has no device of its own.
std::unique_ptr<Device> open_device(comm::MpiSession& session, const DeviceRequest& request);

}  // namespace fathom::launch
