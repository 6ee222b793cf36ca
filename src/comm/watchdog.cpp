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

void Watchdog::Slot::set(const char* call, const Group& of, std::uint64_t number, int with,
                         int tagged) {
  group.store(&of, std::memory_order_relaxed);
  collective.store(number, std::memory_order_relaxed);
  peer.store(with, std::memory_order_relaxed);
  tag.store(tagged, std::memory_order_relaxed);
  name.store(call, std::memory_order_relaxed);
}

Watchdog::Call::Call(Watchdog* watchdog, const char* name, Group& group) : watchdog_(watchdog) {
  if (watchdog_ == nullptr) return;
  watchdog_->call_.set(name, group, ++group.collectives, -1, -1);
  watchdog_->notes_.fetch_add(1, std::memory_order_release);
}

Watchdog::Call::Call(Watchdog* watchdog, const char* name, Group& group, int peer, int tag)
    : watchdog_(watchdog) {
  if (watchdog_ == nullptr) return;
  watchdog_->call_.set(name, group, 0, peer, tag);
  watchdog_->notes_.fetch_add(1, std::memory_order_release);
}

// What fails is no progress: a rank whose peers are gone must not take its report back.
Watchdog::Call::~Call() {
  if (watchdog_ == nullptr || std::uncaught_exceptions() > 0) return;
  watchdog_->call_.name.store(nullptr, std::memory_order_relaxed);
  watchdog_->notes_.fetch_add(1, std::memory_order_release);
}

void Watchdog::note_device_call(const char* name, Group& group, int peer, int tag) {
  device_call_.set(name, group, peer < 0 ? ++group.collectives : 0, peer, tag);
  notes_.fetch_add(1, std::memory_order_release);
}

/// The call in which the working thread waits for others, or nullptr.
const Watchdog::Slot* Watchdog::waits_in() const {
  if (call_.name != nullptr) return &call_;
  const Device* device = device_;
  const bool waits = device != nullptr && device->waiting() && device_call_.name != nullptr;
  return waits ? &device_call_ : nullptr;
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
  if (const Slot* call = waits_in()) {
    r.call = call->name;
    r.members = call->group.load()->members;
    r.collective = call->collective;
    const int peer = call->peer;
    r.peer = peer < 0 ? -1 : r.members[static_cast<std::size_t>(peer)];
    r.tag = call->tag;
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
