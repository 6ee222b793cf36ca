#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace fathom {

/// Calls body(i) for 0 <= i < count on so many threads. After a throw no further item is
/// begun, all that were are finished, and the exception of the lowest i is thrown here. Items begin
/// in order, so it is the first of the whole sequence, whatever the number of threads.
template <typename Body>
void parallel_for(std::size_t count, std::size_t threads, const Body& body) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::vector<std::exception_ptr> errors(count);
  const auto work = [&] {
    while (!failed) {
      const std::size_t i = next++;
      if (i >= count) return;
      try {
        body(i);
      } catch (...) {
        errors[i] = std::current_exception();
        failed = true;
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    for (std::size_t t = 1; t < std::min(threads, count); ++t) workers.emplace_back(work);
    work();
  }
  const auto first = std::find_if(errors.begin(), errors.end(), [](const auto& e) { return !!e; });
  if (first != errors.end()) std::rethrow_exception(*first);
}

}  // namespace fathom
