#pragma once

#include <cstddef>

#include "core/range_allocator.h"

namespace fathom {

/// One mapping of address space with huge pages, handed out by a RangeAllocator. After the first
/// step every request is met by pages that are already there: page faults in malloc are what costs
/// other trainers up to 40 % of a step on CPUs. Not thread-safe.
class Arena {
 public:
  /// What every request is rounded up to, in bytes.
  static constexpr std::size_t kAlignment = RangeAllocator::kAlignment;

  /// Reserves `limit` bytes of address space; memory is only used once it is touched.
  explicit Arena(std::size_t limit);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* allocate(std::size_t bytes) { return range_.allocate(bytes); }
  void free(void* memory) noexcept { range_.free(memory); }
  bool owns(const void* memory) const noexcept { return range_.owns(memory); }

  const MemoryStats& stats() const { return range_.stats(); }
  void reset_peak() { range_.reset_peak(); }

  std::byte* base() const { return range_.base(); }
  std::size_t size() const { return range_.size(); }

 private:
  RangeAllocator range_;
};

}  // namespace fathom
