#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace fathom::comm {

/// Ends a job that is alive but stuck. One thread per process, no communication: the working thread
/// notes each action it starts, and when no note comes for the limit, the last one is printed (so
/// that the log shows who waits for whom); after as long again the job is aborted.
class Watchdog {
 public:
  using Seconds = std::chrono::duration<double>;

  /// What the rank is about to do. `name` must be a string literal; -1 means "has none".
  struct Action {
    std::int64_t step = -1;
    int micro_batch = -1;
    const char* name = "start";
    int peer = -1;
    int tag = -1;
  };

  /// `abort` is called from the watchdog's thread, once; it should not return
  /// (MpiSession::abort with the exit code of ErrorKind::comm).
  Watchdog(std::string rank_name, Seconds limit, std::function<void()> abort);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Progress: lock-free and a few stores long, for the working thread only.
  void note(const Action& action);

  /// The limit outside any Phase, for example ten median steps once they are known.
  void set_limit(Seconds limit);

  /// A span of time with its own limit: saving, loading, evaluating. Phases nest; the innermost
  /// counts. For the working thread only.
  class Phase {
   public:
    Phase(Watchdog& watchdog, const char* name, Seconds limit);
    ~Phase();
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    Watchdog& watchdog_;
    const char* outer_name_;
    double outer_limit_;
  };

 private:
  void run();
  double limit() const;
  std::string report(double silent_seconds) const;

  const std::string rank_name_;
  const std::function<void()> abort_;

  // The slot. Its fields are read only after they have not changed for a whole limit, so they need
  // no protection from tearing; `notes_` is stored last and publishes them.
  std::atomic<std::uint64_t> notes_{0};
  std::atomic<std::int64_t> step_{-1};
  std::atomic<int> micro_batch_{-1};
  std::atomic<const char*> name_{"start"};
  std::atomic<int> peer_{-1};
  std::atomic<int> tag_{-1};

  std::atomic<double> limit_;
  std::atomic<double> phase_limit_{0.0};  ///< 0 outside any Phase
  std::atomic<const char*> phase_name_{nullptr};

  std::mutex mutex_;
  std::condition_variable stop_signal_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace fathom::comm
