#include "comm/watchdog.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <unistd.h>

#include "core/error.h"

namespace fathom::comm {

Watchdog::Watchdog(Place place, Seconds limit, std::function<void()> abort)
    : place_(std::move(place)), abort_(std::move(abort)), limit_(limit.count()) {
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
  notes_.fetch_add(1, std::memory_order_release);
}

Watchdog::Group& Watchdog::add_group(std::vector<int> members) {
  return groups_.emplace_back(Group{std::move(members)});
}

Watchdog::Call::Call(Watchdog* watchdog, const char* name, Group& group)
    : Call(watchdog, name, group, -1, -1) {
  if (watchdog_ != nullptr)
    watchdog_->collective_.store(++group.collectives, std::memory_order_relaxed);
}

Watchdog::Call::Call(Watchdog* watchdog, const char* name, Group& group, int peer, int tag)
    : watchdog_(watchdog) {
  if (watchdog_ == nullptr) return;
  watchdog_->group_.store(&group, std::memory_order_relaxed);
  watchdog_->collective_.store(0, std::memory_order_relaxed);
  watchdog_->peer_.store(peer, std::memory_order_relaxed);
  watchdog_->tag_.store(tag, std::memory_order_relaxed);
  watchdog_->call_.store(name, std::memory_order_relaxed);
  watchdog_->notes_.fetch_add(1, std::memory_order_release);
}

// What fails is no progress: a rank whose peers are gone must not take its report back.
Watchdog::Call::~Call() {
  if (watchdog_ == nullptr || std::uncaught_exceptions() > 0) return;
  watchdog_->call_.store(nullptr, std::memory_order_relaxed);
  watchdog_->notes_.fetch_add(1, std::memory_order_release);
}

double Watchdog::limit() const {
  const double phase = phase_limit_;
  return phase > 0 ? phase : limit_;
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
      if (reported) {
        std::fprintf(stderr, "watchdog: rank %d goes on\n", place_.rank);
        if (!place_.folder.empty()) remove_report(place_.folder, place_.rank);
      }
      seen = now_seen;
      since = Clock::now();
      reported = false;
    } else if (!reported && silent > limit() / 2) {
      tell(report(silent));
      reported = true;
    } else if (silent > limit()) {
      give_up(silent);
      return;
    }
  }
}

HangReport Watchdog::report(double silent_seconds) const {
  HangReport r;
  r.rank = place_.rank;
  r.ranks = place_.ranks;
  r.host = place_.host;
  r.pid = ::getpid();
  r.silent_seconds = silent_seconds;
  r.sequence = notes_;
  if (const char* phase = phase_name_) r.phase = phase;
  r.action = name_.load();
  r.step = step_;
  r.micro_batch = micro_batch_;
  if (const char* call = call_) {
    r.call = call;
    r.members = group_.load()->members;
    r.collective = collective_;
    const int peer = peer_;
    r.peer = peer < 0 ? -1 : r.members[static_cast<std::size_t>(peer)];
    r.tag = tag_;
  }
  return r;
}

// A full disk or a network folder that has gone must not keep the job from ending.
void Watchdog::tell(const HangReport& report) {
  std::fprintf(stderr, "watchdog: no progress: %s; the job ends in %.3g s unless it goes on\n",
               to_string(report).c_str(), limit() / 2);
  if (place_.folder.empty()) return;
  try {
    write_report(place_.folder, report);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "watchdog: %s\n", error.what());
  }
}

void Watchdog::give_up(double silent_seconds) {
  std::string verdict;
  try {
    if (!place_.folder.empty()) {
      close_reports(place_.folder);
      const Culprits culprits = find_culprits(read_reports(place_.folder));
      for (const int rank : culprits.ranks) verdict += str(verdict.empty() ? "" : ", ", rank);
      verdict = str("; it waited for rank ", verdict, ", which ", culprits.reason, "; see ",
                    place_.folder.string());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "watchdog: %s\n", error.what());
  }
  std::fprintf(stderr, "watchdog: rank %d made no progress in %.3g s: the job ends%s\n",
               place_.rank, silent_seconds, verdict.c_str());
  abort_();
}

Watchdog::Phase::Phase(Watchdog* watchdog, const char* name, Seconds limit) : watchdog_(watchdog) {
  if (watchdog_ == nullptr) return;
  outer_name_ = watchdog_->phase_name_;
  outer_limit_ = watchdog_->phase_limit_;
  watchdog_->phase_limit_ = limit.count();
  watchdog_->phase_name_ = name;
  watchdog_->notes_.fetch_add(1, std::memory_order_release);
}

Watchdog::Phase::~Phase() {
  if (watchdog_ == nullptr || std::uncaught_exceptions() > 0) return;
  watchdog_->phase_limit_ = outer_limit_;
  watchdog_->phase_name_ = outer_name_;
  watchdog_->notes_.fetch_add(1, std::memory_order_release);
}

}  // namespace fathom::comm
