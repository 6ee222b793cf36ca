#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <unordered_map>

#include "core/device.h"

namespace fathom {

/// Hands out pieces of a range of addresses, best-fit, and merges them again when they are freed.
/// It only counts: the memory is its owner's, on the host or on a device. Not thread-safe.
class RangeAllocator {
 public:
  /// What every request is rounded up to, in bytes; pieces are aligned as far as the base is.
  static constexpr std::size_t kAlignment = 256;

  RangeAllocator(std::byte* base, std::size_t size);

  /// Throws Error(config) when no free piece is large enough, with the sizes and the options that
  /// a run may lower.
  void* allocate(std::size_t bytes);
  void free(void* memory) noexcept;

  /// Of the piece that allocate() returned, as it was rounded up; 0 of any other address.
  std::size_t piece_bytes(const void* memory) const noexcept;

  bool owns(const void* memory) const noexcept {
    const auto* address = static_cast<const std::byte*>(memory);
    return address >= base_ && address < base_ + size_;
  }

  const MemoryStats& stats() const { return stats_; }
  void reset_peak() { stats_.peak = stats_.in_use; }

  std::byte* base() const { return base_; }
  std::size_t size() const { return size_; }

 private:
  void insert_free(std::size_t offset, std::size_t size);
  void erase_free(std::map<std::size_t, std::size_t>::iterator it);

  std::byte* base_;
  std::size_t size_;
  std::map<std::size_t, std::size_t> free_by_offset_;
  std::set<std::pair<std::size_t, std::size_t>> free_by_size_;  // (size, offset)
  std::unordered_map<std::size_t, std::size_t> used_;           // offset -> size
  MemoryStats stats_;
};

}  // namespace fathom
