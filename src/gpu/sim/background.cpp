#include "gpu/sim/background.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <thread>

#include "gpu/sim/settings.h"
#include "gpu/sim/stream_queue.h"

namespace fathom::gpu::sim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::microseconds(50);    // between two looks at unfinished work
constexpr auto kSilence = std::chrono::milliseconds(20);  // of the host, before lazy streams go on

// The host's last call; the background's own calls do not count.
std::atomic<Clock::time_point> last_call = Clock::time_point{};
thread_local bool in_background = false;

class Background {
 public:
  Background(std::function<bool()> go_on, std::function<bool()> has_work)
      : go_on_(std::move(go_on)), has_work_(std::move(has_work)), thread_([this] { run(); }) {}
  ~Background() {
    stop_ = true;
    thread_.join();
  }

 private:
  void run() {
    in_background = true;
    while (!stop_) {
      bool idle = false;
      {
        const auto lock = lock_runtime();
        idle = !has_work_();
        if (!idle && may_go_on()) go_on_();
      }
      // A process without work in flight has none until its next call.
      std::this_thread::sleep_for(idle ? kSilence / 10 : kPause);
    }
  }

  static bool may_go_on() {
    return !settings().lazy_streams || Clock::now() - last_call.load() > kSilence;
  }

  std::function<bool()> go_on_, has_work_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace

void start_background(std::function<bool()> go_on, std::function<bool()> has_work) {
  static Background background(std::move(go_on), std::move(has_work));
}

void note_host_call() {
  if (!in_background) last_call = Clock::now();
}

}  // namespace fathom::gpu::sim
