#pragma once

#include <chrono>
#include <functional>
#include <future>

namespace fathom::comm {

/// Work that may never come back, such as writing to a network folder whose server is gone: each
/// task has a thread of its own and is waited for only so long. Tasks happen one after the other,
/// in the order in which they were given. For one thread at a time.
class BoundedTasks {
 public:
  using Seconds = std::chrono::duration<double>;

  /// True when the task, and all those before it, ended in time. Otherwise it is left behind: it
  /// must own whatever it uses. What it throws is lost.
  bool run(std::function<void()> task, Seconds limit);

 private:
  std::shared_future<void> last_;
};

}  // namespace fathom::comm
