#include "comm/bounded_tasks.h"

#include <thread>

namespace fathom::comm {

bool BoundedTasks::run(std::function<void()> task, Seconds limit) {
  std::packaged_task<void()> work([before = last_, task = std::move(task)] {
    if (before.valid()) before.wait();
    task();
  });
  last_ = work.get_future().share();
  std::thread(std::move(work)).detach();
  return last_.wait_for(limit) == std::future_status::ready;
}

}  // namespace fathom::comm
