#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <unordered_map>

#include "core/device.h"

namespace fathom {

/// One mapping of address space with huge pages, handed out best-fit and merged again when freed.
/// After the first step every request is met by pages that are already there: page faults in malloc
/// are what costs other trainers up to 40 % of a step on CPUs. Not thread-safe.
class Arena {
 public:
  /// What every request is rounded up to, in bytes.
  static constexpr std::size_t kAlignment = 256;

  /// Reserves `limit` bytes of address space; memory is only used once it is touched.
  explicit Arena(std::size_t limit);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* allocate(std::size_t bytes);
  void free(void* memory) noexcept;

  const MemoryStats& stats() const { return stats_; }
  void reset_peak() { stats_.peak = stats_.in_use; }

  std::byte* base() const { return base_; }
  std::size_t size() const { return size_; }

 private:
  void insert_free(std::size_t offset, std::size_t size);
  void erase_free(std::map<std::size_t, std::size_t>::iterator it);

  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
  std::map<std::size_t, std::size_t> free_by_offset_;
  std::set<std::pair<std::size_t, std::size_t>> free_by_size_;  // (size, offset)
  std::unordered_map<std::size_t, std::size_t> used_;           // offset -> size
  MemoryStats stats_;
};

}  // namespace fathom
