#include "gpu/sim/streams.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "core/error.h"
#include "gpu/sim/background.h"
#include "gpu/sim/fault.h"
#include "gpu/sim/memory.h"
#include "gpu/sim/settings.h"
#include "gpu/sim/stream_queue.h"

namespace fathom::gpu::sim {
namespace {

/// One entry of a stream: work, or a wait for a mark of another.
struct Item {
  std::function<bool()> work;
  std::shared_ptr<Mark> awaits;
};

}  // namespace
}  // namespace fathom::gpu::sim

struct CUstream_st {
  int device = 0;
  std::deque<fathom::gpu::sim::Item> queue;
  bool running = false;  // the front, on the stack of calls
  int queries = 0;       // by the host, while work was left
  // While polled work goes on, other processes may use the memory at any time.
  std::unique_ptr<fathom::gpu::sim::DeviceAccess> access;
};

namespace fathom::gpu::sim {
namespace {

// Queries of a lazy stream that go unanswered before one runs what is asked for, so that a loop
// which polls comes to its end.
constexpr int kPatience = 16;

struct Streams {
  std::recursive_mutex mutex;
  std::vector<std::unique_ptr<CUstream_st>> all;
  std::vector<CUstream_st*> defaults;  // by device
};

// Never destroyed: see memory().
Streams& streams() {
  static auto* const all = new Streams;
  return *all;
}

CUstream_st& resolve(cudaStream_t stream) {
  FATHOM_CHECK(is_stream(stream), "no such stream");
  if (stream) return *stream;
  auto& defaults = streams().defaults;
  const auto device = static_cast<std::size_t>(current_device());
  if (defaults.size() <= device) defaults.resize(device + 1, nullptr);
  if (!defaults[device]) defaults[device] = make_stream(current_device());
  return *defaults[device];
}

// A device with a fault does nothing any more.
void drop_all_work() {
  for (const auto& stream : streams().all) {
    if (stream->running) continue;
    stream->queue.clear();
    stream->access.reset();
  }
}

// Runs the front of a stream, or what it waits for. Whether anything went on.
bool advance(CUstream_st& stream) {
  if (stream.queue.empty() || stream.running) return false;
  Item& front = stream.queue.front();
  if (front.awaits) {
    if (!front.awaits->done) return advance(*front.awaits->stream);
    stream.queue.pop_front();
    return true;
  }
  if (!stream.access) stream.access = std::make_unique<DeviceAccess>();
  stream.running = true;
  bool finished = false;
  try {
    finished = front.work();
  } catch (const std::exception& error) {
    set_fault(error.what());
  }
  stream.running = false;
  if (faulted()) drop_all_work();
  if (!finished || stream.queue.empty()) return false;
  stream.access.reset();
  stream.queue.pop_front();
  return true;
}

bool advance_all() {
  bool any = false;
  for (std::size_t i = 0; i < streams().all.size(); ++i)
    while (advance(*streams().all[i])) any = true;
  return any;
}

// The least that brings a mark nearer. Work that waits for other processes makes the rest of the
// device go on too: they may wait for that.
bool advance_to(const Mark& mark) {
  if (!settings().lazy_streams) return advance_all();
  return advance(*mark.stream) || advance_all();
}

void push(cudaStream_t handle, Item item) {
  CUstream_st& stream = resolve(handle);
  if (faulted()) return;
  stream.queue.push_back(std::move(item));
  if (!settings().lazy_streams)
    while (advance(stream)) {
    }
}

}  // namespace

std::unique_lock<std::recursive_mutex> lock_runtime() {
  std::unique_lock lock(streams().mutex);
  note_host_call();
  return lock;
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  const auto lock = lock_runtime();
  push(stream, {.work =
                    [work = std::move(work)] {
                      work();
                      return true;
                    },
                .awaits = nullptr});
}

void enqueue_polled(cudaStream_t stream, std::function<bool()> work) {
  const auto lock = lock_runtime();
  push(stream, {.work = std::move(work), .awaits = nullptr});
  start_background([] { return advance_all(); },
                   [] {
                     return std::any_of(streams().all.begin(), streams().all.end(),
                                        [](const auto& s) { return !s->queue.empty(); });
                   });
}

bool is_stream(cudaStream_t stream) {
  const auto& all = streams().all;
  return !stream ||
         std::any_of(all.begin(), all.end(), [&](const auto& s) { return s.get() == stream; });
}

int device_of(cudaStream_t stream) {
  return stream ? stream->device : current_device();
}

cudaStream_t make_stream(int device) {
  streams().all.push_back(std::make_unique<CUstream_st>());
  streams().all.back()->device = device;
  return streams().all.back().get();
}

void destroy_stream(cudaStream_t stream) {
  wait_for(*put_mark(stream));
  std::erase_if(streams().all, [&](const auto& s) { return s.get() == stream; });
}

std::shared_ptr<Mark> put_mark(cudaStream_t handle) {
  auto mark = std::make_shared<Mark>();
  mark->stream = &resolve(handle);
  push(handle, {.work =
                    [mark] {
                      mark->at = std::chrono::steady_clock::now();
                      mark->done = true;
                      return true;
                    },
                .awaits = nullptr});
  return mark;
}

void put_wait(cudaStream_t stream, std::shared_ptr<Mark> mark) {
  push(stream, {.work = nullptr, .awaits = std::move(mark)});
}

bool is_done(Mark& mark) {
  if (mark.done || (settings().lazy_streams && ++mark.queries <= kPatience)) return mark.done;
  while (!mark.done && advance_to(mark)) {
  }
  return mark.done;
}

bool is_idle(cudaStream_t handle) {
  CUstream_st& stream = resolve(handle);
  if (settings().lazy_streams && !stream.queue.empty() && ++stream.queries <= kPatience)
    return false;
  while (advance(stream)) {
  }
  return stream.queue.empty();
}

void wait_for(const Mark& mark) {
  while (!mark.done && !faulted()) {
    if (advance_to(mark)) continue;
    streams().mutex.unlock();
    std::this_thread::yield();
    streams().mutex.lock();
  }
}

void wait_for_device(int device) {
  std::vector<cudaStream_t> of_device;
  for (const auto& stream : streams().all)
    if (stream->device == device) of_device.push_back(stream.get());
  for (const cudaStream_t stream : of_device) wait_for(*put_mark(stream));
}

int& current_device() {
  static thread_local int device = 0;
  return device;
}

}  // namespace fathom::gpu::sim
