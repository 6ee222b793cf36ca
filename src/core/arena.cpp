#include "core/arena.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>

#include "core/error.h"

namespace fathom {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t n, std::size_t unit) {
  return (n + unit - 1) / unit * unit;
}

// `size` bytes that begin at a huge page.
RangeAllocator map(std::size_t size) {
  void* memory = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, ErrorKind::config, "cannot reserve ", size >> 20,
          " MiB of address space: ", std::strerror(errno),
          "; lower run.memory_limit_gib or raise the limit on virtual memory (ulimit -v)");
  // The mapping is one huge page longer than needed, so that its start can be aligned to one.
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t aligned = round_up(address, kHugePage);
  auto* base = reinterpret_cast<std::byte*>(aligned);
  if (aligned > address) munmap(memory, aligned - address);
  const std::size_t tail = address + kHugePage - aligned;
  if (tail > 0) munmap(base + size, tail);
  madvise(base, size, MADV_HUGEPAGE);  // a hint: without it everything still works, only slower
  return {base, size};
}

}  // namespace

Arena::Arena(std::size_t limit) : range_(map(round_up(limit, kHugePage))) {}

Arena::~Arena() {
  munmap(range_.base(), range_.size());
}

}  // namespace fathom
