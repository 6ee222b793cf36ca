#include <chrono>
#include <memory>

#include "gpu/sim/fault.h"
#include "gpu/sim/stream_queue.h"
#include "gpu/sim/streams.h"

// The runtime's streams and events.

using namespace fathom::gpu;

/// What an event stands for: the mark of its last recording.
struct CUevent_st {
  std::shared_ptr<sim::Mark> mark;
  bool timed = true;
};

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags,
                                         int /*priority*/) {
  const auto lock = sim::lock_runtime();
  if (sim::faulted()) return cudaErrorLaunchFailure;
  // The other kind waits for the default stream, which hides missing waits.
  if (flags != cudaStreamNonBlocking)
    return sim::refuse(cudaErrorNotSupported, "streams must be cudaStreamNonBlocking");
  *stream = sim::make_stream(sim::current_device());
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return sim::fault_or(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const auto lock = sim::lock_runtime();
  if (!stream || !sim::is_stream(stream))
    return sim::refuse(cudaErrorInvalidResourceHandle, "cudaStreamDestroy: no such stream");
  sim::destroy_stream(stream);
  return sim::fault_or(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const auto lock = sim::lock_runtime();
  if (!sim::is_stream(stream))
    return sim::refuse(cudaErrorInvalidResourceHandle, "cudaStreamSynchronize: no such stream");
  sim::wait_for(*sim::put_mark(stream));
  return sim::fault_or(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const auto lock = sim::lock_runtime();
  if (!sim::is_stream(stream))
    return sim::refuse(cudaErrorInvalidResourceHandle, "cudaStreamQuery: no such stream");
  const bool done = sim::is_idle(stream);
  return sim::fault_or(done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize() {
  const auto lock = sim::lock_runtime();
  sim::wait_for_device(sim::current_device());
  return sim::fault_or(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int /*flags*/) {
  const auto lock = sim::lock_runtime();
  if (!event || !sim::is_stream(stream))
    return sim::refuse(cudaErrorInvalidResourceHandle, "cudaStreamWaitEvent: no such stream");
  if (event->mark) sim::put_wait(stream, event->mark);  // one never recorded holds nothing back
  return sim::fault_or(cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const auto lock = sim::lock_runtime();
  if (!sim::is_stream(stream))
    return sim::refuse(cudaErrorInvalidResourceHandle, "cudaLaunchHostFunc: no such stream");
  sim::enqueue(stream, [=] { function(data); });
  return sim::fault_or(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  if (sim::faulted()) return cudaErrorLaunchFailure;
  *event = new CUevent_st{.mark = nullptr, .timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return sim::fault_or(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto lock = sim::lock_runtime();
  if (!event || !sim::is_stream(stream))
    return sim::refuse(cudaErrorInvalidResourceHandle, "cudaEventRecord: no such event or stream");
  event->mark = sim::put_mark(stream);
  return sim::fault_or(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto lock = sim::lock_runtime();
  const bool done = !event->mark || sim::is_done(*event->mark);
  return sim::fault_or(done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const auto lock = sim::lock_runtime();
  if (event->mark) sim::wait_for(*event->mark);
  return sim::fault_or(cudaSuccess);
}

// The time between the two on this machine: what a simulated device does takes as long as it takes.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const auto lock = sim::lock_runtime();
  if (!start->mark || !end->mark || !start->timed || !end->timed)
    return sim::refuse(cudaErrorInvalidResourceHandle,
                       "cudaEventElapsedTime: an event without time, or never recorded");
  if (!start->mark->done || !end->mark->done) return sim::fault_or(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->mark->at - start->mark->at).count();
  return sim::fault_or(cudaSuccess);
}
