#include "gpu/sim/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <sys/mman.h>
#include <tuple>
#include <unistd.h>
#include <vector>

#include "core/error.h"
#include "core/sanitizer.h"
#include "gpu/sim/fault.h"
#include "gpu/sim/poison.h"
#include "gpu/sim/settings.h"

namespace fathom::gpu::sim {
namespace {

constexpr std::size_t kPage = 4096;
// Poisoned memory is a private view of one file of 0xff, seen again and again.
constexpr std::size_t kPoisonFileBytes = std::size_t{8} << 20;

/// The reserved addresses of one device: twice its memory, so that no gap makes an allocation fail.
struct Space {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::size_t in_use = 0;
};

struct Memory {
  std::vector<Space> spaces;                       // by device
  std::map<const std::byte*, MemoryRange> ranges;  // live, by their first address
  int poison_file = -1;
  int open = 0;  // accesses that live
};

// Never destroyed: devices that are static objects may free memory at the program's end.
Memory& memory() {
  static auto* const all = new Memory;
  return *all;
}

std::size_t pages_of(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

void* map(std::byte* at, std::size_t bytes, int access, int flags, int file) {
  void* result = mmap(at, bytes, access, MAP_PRIVATE | MAP_NORESERVE | flags, file, 0);
  FATHOM_CHECK(result != MAP_FAILED, "mmap of ", bytes, " bytes: ", std::strerror(errno));
  return result;
}

int poison_file() {
  int& file = memory().poison_file;
  if (file >= 0) return file;
  file = memfd_create("fathom-sim-poison", MFD_CLOEXEC);
  FATHOM_CHECK(file >= 0, "memfd_create: ", std::strerror(errno));
  const std::vector<unsigned char> chunk(std::size_t{1} << 20, kPoison);
  for (std::size_t done = 0; done < kPoisonFileBytes; done += chunk.size())
    FATHOM_CHECK(write(file, chunk.data(), chunk.size()) == static_cast<ssize_t>(chunk.size()),
                 "poison file: ", std::strerror(errno));
  return file;
}

void map_poisoned(std::byte* begin, std::size_t bytes, int access) {
  for (std::size_t at = 0; at < bytes; at += kPoisonFileBytes)
    map(begin + at, std::min(kPoisonFileBytes, bytes - at), access, MAP_FIXED, poison_file());
}

Space& space_of(int device) {
  auto& spaces = memory().spaces;
  if (spaces.empty()) spaces.resize(static_cast<std::size_t>(settings().devices));
  Space& space = spaces.at(static_cast<std::size_t>(device));
  if (!space.begin) {
    space.bytes = 2 * pages_of(settings().device_bytes);
    space.begin = static_cast<std::byte*>(map(nullptr, space.bytes, PROT_NONE, MAP_ANONYMOUS, -1));
  }
  return space;
}

// The lowest gap of a space that holds `bytes` and the page after them.
std::byte* find_gap(const Space& space, std::size_t bytes) {
  std::byte* at = space.begin;
  for (const auto& [begin, range] : memory().ranges) {
    if (begin < space.begin || begin >= space.begin + space.bytes) continue;
    if (static_cast<std::size_t>(begin - at) >= bytes + kPage) return at;
    at = range.begin + pages_of(range.bytes) + kPage;
  }
  const std::byte* end = space.begin + space.bytes;
  return at <= end && static_cast<std::size_t>(end - at) >= bytes + kPage ? at : nullptr;
}

void protect_all(int access) {
  for (const auto& [begin, range] : memory().ranges)
    if (range.home == Home::device) mprotect(range.begin, pages_of(range.bytes), access);
}

std::string describe(const void* address, std::size_t bytes) {
  return str(address, " (", bytes, " bytes)");
}

// What is wrong with an address as a device's or the host's side of a copy; empty if nothing is.
std::string complaint(const void* address, std::size_t bytes, bool on_device) {
  const auto range = find_range(address);
  const bool device_space = in_device_space(address);
  if (!on_device)
    return device_space ? str(describe(address, bytes), " is device memory, not the host's") : "";
  if (!device_space) return str(describe(address, bytes), " is host memory, not a device's");
  if (!range) return str(describe(address, bytes), " is not allocated (any more)");
  const auto left = static_cast<std::size_t>(range->begin + range->bytes -
                                             static_cast<const std::byte*>(address));
  if (bytes > left)
    return str(describe(address, bytes), " runs ", bytes - left, " bytes past its allocation of ",
               range->bytes);
  return "";
}

}  // namespace

std::optional<MemoryRange> find_range(const void* address) {
  const auto* wanted = static_cast<const std::byte*>(address);
  const auto& ranges = memory().ranges;
  auto after = ranges.upper_bound(wanted);
  if (after == ranges.begin()) return std::nullopt;
  const MemoryRange& range = std::prev(after)->second;
  if (wanted > range.begin + range.bytes) return std::nullopt;
  return range;
}

bool in_device_space(const void* address) {
  const auto* wanted = static_cast<const std::byte*>(address);
  return std::any_of(memory().spaces.begin(), memory().spaces.end(), [&](const Space& space) {
    return wanted >= space.begin && wanted < space.begin + space.bytes;
  });
}

void* allocate_device(int device, std::size_t bytes) {
  Space& space = space_of(device);
  const std::size_t size = pages_of(bytes);
  if (space.in_use + size > pages_of(settings().device_bytes)) return nullptr;
  std::byte* begin = find_gap(space, size);
  if (!begin) return nullptr;
  const bool accessible = memory().open > 0 || !settings().protect;
  map_poisoned(begin, size, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
  ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
  ASAN_POISON_MEMORY_REGION(begin + bytes, size - bytes);
  space.in_use += size;
  memory().ranges[begin] = {begin, bytes, Home::device, device};
  return begin;
}

void* allocate_pinned(std::size_t bytes) {
  const std::size_t size = pages_of(bytes);
  auto* begin = static_cast<std::byte*>(map(nullptr, size, PROT_NONE, MAP_ANONYMOUS, -1));
  map_poisoned(begin, size, PROT_READ | PROT_WRITE);
  memory().ranges[begin] = {begin, bytes, Home::pinned, 0};
  return begin;
}

bool free_memory(void* address, Home home) {
  auto& ranges = memory().ranges;
  const auto found = ranges.find(static_cast<const std::byte*>(address));
  if (found == ranges.end() || found->second.home != home) return false;
  const MemoryRange range = found->second;
  ranges.erase(found);
  if (home == Home::pinned) {
    munmap(range.begin, pages_of(range.bytes));
  } else {
    map(range.begin, pages_of(range.bytes), PROT_NONE, MAP_FIXED | MAP_ANONYMOUS, -1);
    space_of(range.device).in_use -= pages_of(range.bytes);
  }
  return true;
}

MemoryInUse device_memory(int device) {
  return {.bytes = space_of(device).in_use, .limit = pages_of(settings().device_bytes)};
}

cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) {
    to_device = in_device_space(to);
    from_device = in_device_space(from);
  }
  for (const auto& [what, address, device] :
       {std::tuple{"destination", to, to_device}, std::tuple{"source", from, from_device}}) {
    const std::string reason = complaint(address, bytes, device);
    if (reason.empty()) continue;
    const bool wrong_side = in_device_space(address) != device;
    return refuse(wrong_side ? cudaErrorInvalidMemcpyDirection : cudaErrorInvalidValue,
                  str("copy of ", bytes, " bytes: the ", what, " ", reason));
  }
  return cudaSuccess;
}

cudaError_t check_device_range(const char* call, const void* begin, std::size_t bytes) {
  const std::string reason = complaint(begin, bytes, true);
  return reason.empty() ? cudaSuccess : refuse(cudaErrorInvalidValue, str(call, ": ", reason));
}

DeviceAccess::DeviceAccess() {
  if (memory().open++ == 0 && settings().protect) protect_all(PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
  if (--memory().open == 0 && settings().protect) protect_all(PROT_NONE);
}

}  // namespace fathom::gpu::sim
