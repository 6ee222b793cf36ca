#include "comm/watchdog.h"

#include <algorithm>
#include <cstdio>

#include "core/error.h"

namespace fathom::comm {

Watchdog::Watchdog(std::string rank_name, Seconds limit, std::function<void()> abort)
    : rank_name_(std::move(rank_name)), abort_(std::move(abort)), limit_(limit.count()) {
  FATHOM_CHECK(limit.count() > 0, "watchdog limit ", limit.count(), " s");
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_signal_.notify_all();
  thread_.join();
}

void Watchdog::note(const Action& action) {
  step_.store(action.step, std::memory_order_relaxed);
  micro_batch_.store(action.micro_batch, std::memory_order_relaxed);
  name_.store(action.name, std::memory_order_relaxed);
  peer_.store(action.peer, std::memory_order_relaxed);
  tag_.store(action.tag, std::memory_order_relaxed);
  notes_.fetch_add(1, std::memory_order_release);
}

void Watchdog::set_limit(Seconds limit) {
  limit_ = limit.count();
}

double Watchdog::limit() const {
  const double phase = phase_limit_;
  return phase > 0 ? phase : limit_.load();
}

void Watchdog::run() {
  using Clock = std::chrono::steady_clock;
  std::uint64_t seen = notes_.load(std::memory_order_acquire);
  Clock::time_point since = Clock::now();
  bool reported = false;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    // Twenty looks per limit keep the reaction within 5 % of it; a changed limit is seen in a
    // second.
    stop_signal_.wait_for(lock, Seconds(std::min(limit() / 20, 1.0)));
    const std::uint64_t now_seen = notes_.load(std::memory_order_acquire);
    const double silent = Seconds(Clock::now() - since).count();
    if (now_seen != seen) {
      if (reported) std::fprintf(stderr, "watchdog: %s goes on\n", rank_name_.c_str());
      seen = now_seen;
      since = Clock::now();
      reported = false;
    } else if (!reported && silent > limit()) {
      std::fprintf(stderr, "%s\n", report(silent).c_str());
      reported = true;
    } else if (reported && silent > 2 * limit()) {
      std::fprintf(stderr, "watchdog: %s made no progress in %.0f s: the job ends\n",
                   rank_name_.c_str(), silent);
      abort_();
      return;
    }
  }
}

std::string Watchdog::report(double silent_seconds) const {
  const auto field = [](const char* label, std::int64_t value) {
    return value < 0 ? std::string() : str(", ", label, " ", value);
  };
  const char* phase = phase_name_;
  return str("watchdog: ", rank_name_, " has made no progress for ", silent_seconds, " s",
             phase ? str(" (phase ", phase, ")") : "", "; last action: ", name_.load(),
             field("step", step_), field("micro-batch", micro_batch_), field("peer", peer_),
             field("tag", tag_), "; the job ends in ", limit(), " s unless it goes on");
}

Watchdog::Phase::Phase(Watchdog& watchdog, const char* name, Seconds limit)
    : watchdog_(watchdog), outer_name_(watchdog.phase_name_), outer_limit_(watchdog.phase_limit_) {
  watchdog_.phase_limit_ = limit.count();
  watchdog_.phase_name_ = name;
  watchdog_.notes_.fetch_add(1, std::memory_order_release);
}

Watchdog::Phase::~Phase() {
  watchdog_.phase_limit_ = outer_limit_;
  watchdog_.phase_name_ = outer_name_;
  watchdog_.notes_.fetch_add(1, std::memory_order_release);
}

}  // namespace fathom::comm
