#pragma once

#include <chrono>
#include <cuda_runtime.h>
#include <memory>
#include <mutex>

// What the runtime's calls need of the streams beyond streams.h: marks that events are made of,
// waiting, and the one lock of the stand-in.

namespace fathom::gpu::sim {

/// All state of the stand-in belongs to its holder, and so do running kernels. A host thread takes
/// it once in each call of the runtime.
std::unique_lock<std::recursive_mutex> lock_runtime();

/// A point of a stream: done once all that was enqueued before it has run.
struct Mark {
  cudaStream_t stream = nullptr;
  bool done = false;
  std::chrono::steady_clock::time_point at;  ///< when it was done
  int queries = 0;
};

/// Whether a handle is a stream that lives; nullptr is the current device's own.
bool is_stream(cudaStream_t stream);
int device_of(cudaStream_t stream);
cudaStream_t make_stream(int device);
/// Waits for all that is on it first.
void destroy_stream(cudaStream_t stream);

/// A mark at the stream's present end.
std::shared_ptr<Mark> put_mark(cudaStream_t stream);
/// Keeps later work of a stream back until the mark is done.
void put_wait(cudaStream_t stream, std::shared_ptr<Mark> mark);

/// Whether a mark is done, after giving the device the chance to go on. Never blocks.
bool is_done(Mark& mark);
/// Whether nothing is left on a stream, likewise.
bool is_idle(cudaStream_t stream);
/// Blocks until a mark is done, or until the device has a fault.
void wait_for(const Mark& mark);
void wait_for_device(int device);

/// The device that calls of this thread without a stream mean.
int& current_device();

}  // namespace fathom::gpu::sim
