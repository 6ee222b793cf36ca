#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/bounded_tasks.h"
#include "comm/hang_report.h"
#include "core/device.h"

namespace fathom::comm {

/// Ends a job that is alive but stuck. One thread per process, no communication: the working thread
/// notes each action that it starts and each call in which it waits for other ranks. When no note
/// comes for half of the limit, the last ones are printed and written to a report; at the limit the
/// reports of all ranks together name the rank that the others wait for, and the job is aborted.
/// A disk or terminal that does not answer cannot keep it from that: what it writes is waited for
/// only so long.
class Watchdog {
 public:
  using Seconds = std::chrono::duration<double>;

  /// What the rank is about to do. `name` must be a string literal; -1 means "has none".
  struct Action {
    std::int64_t step = -1;
    int micro_batch = -1;
    const char* name = "start";
  };

  /// Who is watched, and where the reports go.
  struct Place {
    int rank = 0;
    int ranks = 1;
    std::string host;
    std::filesystem::path folder;  ///< made when there is something to report; empty: no reports
  };

  /// `abort` is called once, from a thread of the watchdog's; it should not return
  /// (MpiSession::abort with the exit code of ErrorKind::comm). If it hangs, the process exits with
  /// that code on its own.
  Watchdog(Place place, Seconds limit, std::function<void()> abort);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Progress: lock-free and a few stores long, for the working thread only.
  void note(const Action& action);

  /// A group of ranks whose calls are noted; lives as long as the watchdog.
  struct Group {
    std::vector<int> members;       ///< ranks of the world
    std::uint64_t collectives = 0;  ///< begun so far: the working thread's own count
  };
  Group& add_group(std::vector<int> members);

  /// While it lives, the working thread may be waiting for others. Calls do not nest.
  class Call {
   public:
    /// A collective of the group. `name` must be a string literal.
    Call(Watchdog* watchdog, const char* name, Group& group);
    /// A collective that was begun before, and had this number then.
    Call(Watchdog* watchdog, const char* name, Group& group, std::uint64_t number);
    /// A message from or to one member.
    Call(Watchdog* watchdog, const char* name, Group& group, int peer, int tag);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Watchdog* watchdog_;
  };

  /// A call of the group that its devices carry out later. While the host waits for the watched
  /// device, the last such call is what it is taken to wait for. `peer` is -1 for a collective.
  void note_device_call(const char* name, Group& group, int peer, int tag);
  /// The device, which must outlive the watchdog, that the working thread waits for.
  void watch_device(const Device& device) { device_ = &device; }

  /// A span of time with its own limit: saving, loading, evaluating. Phases nest; the innermost
  /// counts. For the working thread only.
  class Phase {
   public:
    /// Without a watchdog, nothing happens.
    Phase(Watchdog* watchdog, const char* name, Seconds limit);
    ~Phase();
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    Watchdog* watchdog_;
    const char* outer_name_ = nullptr;
    double outer_limit_ = 0;
  };

 private:
  void run();
  double limit() const;
  HangReport report(double silent_seconds) const;
  Seconds patience() const;
  void say(const std::string& text);
  bool in_folder(std::function<void()> work);
  void tell(const HangReport& report);
  void take_back();
  std::string verdict();
  void give_up(double silent_seconds);

  const Place place_;
  const std::function<void()> abort_;
  BoundedTasks prints_, files_, end_;  // of the watchdog's thread

  // The slots. Their fields are read only after they have not changed for half a limit, so they
  // need no protection from tearing; `notes_` is stored last and publishes them.
  std::atomic<std::uint64_t> notes_{0};
  std::atomic<std::int64_t> step_{-1};
  std::atomic<int> micro_batch_{-1};
  std::atomic<const char*> name_{"start"};

  /// A call to other ranks.
  struct Slot {
    std::atomic<const char*> name{nullptr};  ///< nullptr: none
    std::atomic<const Group*> group{nullptr};
    std::atomic<std::uint64_t> collective{0};
    std::atomic<int> peer{-1};
    std::atomic<int> tag{-1};

    void set(const char* call, const Group& of, std::uint64_t number, int with, int tagged);
  };
  const Slot* waits_in() const;

  Slot call_;         ///< that the host is in
  Slot device_call_;  ///< the last one that the device was given
  std::atomic<const Device*> device_{nullptr};

  const double limit_;
  std::atomic<double> phase_limit_{0.0};  ///< 0 outside any Phase
  std::atomic<const char*> phase_name_{nullptr};

  std::list<Group> groups_;
  std::mutex mutex_;
  std::condition_variable stop_signal_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace fathom::comm
