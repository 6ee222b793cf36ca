#include "comm/watchdog.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <unistd.h>

#include "core/error.h"

namespace fathom::comm {
namespace {

/// How long a line of text may take, and the end of the job, which a launcher brings about.
constexpr Watchdog::Seconds kPrintSeconds(2), kAbortSeconds(30);

}  // namespace

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

Watchdog::Call::Call(Watchdog* watchdog, const char* name, Group& group)
    : Call(watchdog, name, group, watchdog == nullptr ? 0 : ++group.collectives) {}

Watchdog::Call::Call(Watchdog* watchdog, const char* name, Group& group, std::uint64_t number)
    : watchdog_(watchdog) {
  if (watchdog_ == nullptr) return;
  watchdog_->call_.set(name, group, number, -1, -1);
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
      if (reported) take_back();
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

/// How long the folder of the reports may take: a healthy one answers in milliseconds, also when
/// many write to it at once.
Watchdog::Seconds Watchdog::patience() const {
  return Seconds(std::min(limit() / 2, 10.0));
}

void Watchdog::say(const std::string& text) {
  prints_.run([text] { std::fprintf(stderr, "watchdog: %s\n", text.c_str()); }, kPrintSeconds);
}

/// Work on the folder of the reports, which may be out of order like whatever hangs. True if it
/// ended, well or badly.
bool Watchdog::in_folder(std::function<void()> work) {
  if (place_.folder.empty()) return false;
  const auto problem = std::make_shared<std::string>();
  const bool ended = files_.run(
      [work = std::move(work), problem] {
        try {
          work();
        } catch (const std::exception& error) {
          *problem = error.what();
        }
      },
      patience());
  if (!ended) say(place_.folder.string() + " does not answer");
  if (ended && !problem->empty()) say(*problem);
  return ended;
}

void Watchdog::tell(const HangReport& report) {
  say(str("no progress: ", to_string(report), "; the job ends in ", limit() / 2,
          " s unless it goes on"));
  in_folder([folder = place_.folder, report] { write_report(folder, report); });
}

void Watchdog::take_back() {
  say(str("rank ", place_.rank, " goes on"));
  in_folder([folder = place_.folder, rank = place_.rank] { remove_report(folder, rank); });
}

/// Whom the ranks waited for, as far as their reports can be read.
std::string Watchdog::verdict() {
  const auto text = std::make_shared<std::string>();
  const bool ended = in_folder([folder = place_.folder, text] {
    close_reports(folder);
    const Culprits culprits = find_culprits(read_reports(folder));
    std::string ranks;
    for (const int rank : culprits.ranks) ranks += str(ranks.empty() ? "" : ", ", rank);
    *text =
        str("; it waited for rank ", ranks, ", which ", culprits.reason, "; see ", folder.string());
  });
  return ended ? *text : "";
}

void Watchdog::give_up(double silent_seconds) {
  say(str("rank ", place_.rank, " made no progress in ", std::round(100 * silent_seconds) / 100,
          " s: the job ends", verdict()));
  if (!end_.run(abort_, kAbortSeconds)) std::_Exit(exit_code(ErrorKind::comm));
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
