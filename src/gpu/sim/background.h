#pragma once

#include <functional>

namespace fathom::gpu::sim {

/// From the first call on, a thread lets the streams go on while the host is busy elsewhere: other
/// processes may wait for what is on them. go_on() and has_work() are called with the runtime's
/// lock. Lazy streams go on in it only after the host has made no call for a while.
void start_background(std::function<bool()> go_on, std::function<bool()> has_work);

/// A host thread has called the runtime.
void note_host_call();

}  // namespace fathom::gpu::sim
