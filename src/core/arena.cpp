#include "core/arena.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <sys/mman.h>

#include "core/error.h"

namespace fathom {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t n, std::size_t unit) {
  return (n + unit - 1) / unit * unit;
}

}  // namespace

Arena::Arena(std::size_t limit) : size_(round_up(limit, kHugePage)) {
  void* memory = mmap(nullptr, size_ + kHugePage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, ErrorKind::config, "cannot reserve ", size_ >> 20,
          " MiB of address space: ", std::strerror(errno),
          "; lower run.memory_limit_gib or raise the limit on virtual memory (ulimit -v)");
  // The mapping is one huge page longer than needed, so that its start can be aligned to one.
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t aligned = round_up(address, kHugePage);
  base_ = reinterpret_cast<std::byte*>(aligned);
  if (aligned > address) munmap(memory, aligned - address);
  const std::size_t tail = address + kHugePage - aligned;
  if (tail > 0) munmap(base_ + size_, tail);
  madvise(base_, size_, MADV_HUGEPAGE);  // a hint: without it everything still works, only slower
  stats_.limit = size_;
  insert_free(0, size_);
}

Arena::~Arena() {
  munmap(base_, size_);
}

void Arena::insert_free(std::size_t offset, std::size_t size) {
  free_by_offset_.emplace(offset, size);
  free_by_size_.emplace(size, offset);
}

void Arena::erase_free(std::map<std::size_t, std::size_t>::iterator it) {
  free_by_size_.erase({it->second, it->first});
  free_by_offset_.erase(it);
}

void* Arena::allocate(std::size_t bytes) {
  const std::size_t size = round_up(bytes == 0 ? 1 : bytes, kAlignment);
  const auto found = free_by_size_.lower_bound({size, 0});
  require(found != free_by_size_.end(), ErrorKind::config, "out of memory: a tensor of ",
          size >> 20, " MiB does not fit beside ", stats_.in_use >> 20, " MiB in use (limit ",
          stats_.limit >> 20,
          " MiB); use smaller micro-batches, memory.recompute=block, more ranks, ",
          "or raise run.memory_limit_gib");
  const std::size_t offset = found->second;
  const std::size_t available = found->first;
  erase_free(free_by_offset_.find(offset));
  if (available > size) insert_free(offset + size, available - size);
  used_.emplace(offset, size);
  stats_.in_use += size;
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  return base_ + offset;
}

void Arena::free(void* memory) noexcept {
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
