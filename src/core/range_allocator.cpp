#include "core/range_allocator.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"

namespace fathom {

RangeAllocator::RangeAllocator(std::byte* base, std::size_t size) : base_(base), size_(size) {
  stats_.limit = size_;
  insert_free(0, size_);
}

void RangeAllocator::insert_free(std::size_t offset, std::size_t size) {
  free_by_offset_.emplace(offset, size);
  free_by_size_.emplace(size, offset);
}

void RangeAllocator::erase_free(std::map<std::size_t, std::size_t>::iterator it) {
  free_by_size_.erase({it->second, it->first});
  free_by_offset_.erase(it);
}

void* RangeAllocator::allocate(std::size_t bytes) {
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) & ~(kAlignment - 1);
  const auto found = free_by_size_.lower_bound({size, 0});
  if (found == free_by_size_.end()) {
    const std::size_t largest = free_by_size_.empty() ? 0 : free_by_size_.rbegin()->first;
    fail(ErrorKind::config, "out of memory: a tensor of ", size >> 20, " MiB does not fit beside ",
         stats_.in_use >> 20, " MiB in use (limit ", stats_.limit >> 20,
         " MiB, largest free piece ", largest >> 20,
         " MiB); use a smaller batch.micro_batch, memory.recompute=block, ",
         "model.frozen_dtype=bf16 or teacher.dtype=bf16 for weights that are not trained, more ",
         "ranks (grid.tp, grid.pp), or raise run.memory_limit_gib");
  }
  const std::size_t offset = found->second;
  const std::size_t available = found->first;
  erase_free(free_by_offset_.find(offset));
  if (available > size) insert_free(offset + size, available - size);
  used_.emplace(offset, size);
  stats_.in_use += size;
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  return base_ + offset;
}

std::size_t RangeAllocator::piece_bytes(const void* memory) const noexcept {
  if (!owns(memory)) return 0;
  const auto used =
      used_.find(static_cast<std::size_t>(static_cast<const std::byte*>(memory) - base_));
  return used == used_.end() ? 0 : used->second;
}

void RangeAllocator::free(void* memory) noexcept {
  if (memory == nullptr) return;
  std::size_t offset = static_cast<std::size_t>(static_cast<std::byte*>(memory) - base_);
  const auto used = used_.find(offset);
  if (used == used_.end()) return;
  std::size_t size = used->second;
  used_.erase(used);
  stats_.in_use -= size;
  auto next = free_by_offset_.lower_bound(offset);
  if (next != free_by_offset_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      size += previous->second;
      erase_free(previous);
    }
  }
  if (next != free_by_offset_.end() && offset + size == next->first) {
    size += next->second;
    erase_free(next);
  }
  insert_free(offset, size);
}

}  // namespace fathom
