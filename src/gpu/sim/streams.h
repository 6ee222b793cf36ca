#pragma once

#include <cuda_runtime.h>
#include <functional>

// Streams of the simulated devices: queues of host closures. FATHOM_SIM_STREAMS=eager (the default)
// runs each piece of work as soon as it can; lazy runs it only when something that the host waits
// for requires it, so that a missing wait shows as stale data at once. In both, what depends on
// other processes goes on in the background while the host is busy elsewhere, as on a device.

namespace fathom::gpu::sim {

/// Puts work on a stream: it runs once, after all that was enqueued on the stream before, on this
/// thread or on the one of the background, with device memory accessible. Pointers that it uses
/// must stay valid until then. What it throws becomes the device's fault: every later call of the
/// runtime reports it as cudaErrorLaunchFailure, with its text from cudaGetErrorString().
void enqueue(cudaStream_t stream, std::function<void()> work);

/// The same for work that other processes take part in. It is called again and again until it
/// returns true, and later work of the stream starts only then; it must never block, so that other
/// streams go on meanwhile. Calls never overlap. Work that can no longer finish (its communicator
/// was aborted) must return true.
void enqueue_polled(cudaStream_t stream, std::function<bool()> work);

}  // namespace fathom::gpu::sim
