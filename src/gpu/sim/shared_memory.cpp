#include "gpu/sim/shared_memory.h"

#include <cstring>

#include "core/error.h"
#include "core/sanitizer.h"
#include "gpu/sim/block.h"
#include "gpu/sim/poison.h"
#include "gpu/sim/settings.h"

namespace fathom::gpu::sim {
namespace {

constexpr std::size_t kGap = 64;  // between arrays, which the address sanitizer watches

// Static arrays lie in the first part, the dynamic one in the second.
alignas(128) std::byte memory[2 * kStaticSharedBytes + kSharedBytes + kGap];
std::byte* const dynamic_memory = memory + 2 * kStaticSharedBytes;

struct Launch {
  std::uint64_t number = 0;
  std::size_t dynamic_bytes = 0;
  std::size_t static_end = 0;    // of the first part, gaps included
  std::size_t static_bytes = 0;  // that the kernel has asked for
};
Launch launch;

}  // namespace

void begin_shared(std::size_t dynamic_bytes) {
  launch = {.number = launch.number + 1, .dynamic_bytes = dynamic_bytes};
  ASAN_POISON_MEMORY_REGION(memory, sizeof memory);
  ASAN_UNPOISON_MEMORY_REGION(dynamic_memory, dynamic_bytes);
}

void poison_shared() {
  const std::size_t end = launch.static_end;
#if defined(__SANITIZE_ADDRESS__)
  for (std::size_t i = 0; i < end; ++i)
    if (!__asan_address_is_poisoned(memory + i)) memory[i] = static_cast<std::byte>(kPoison);
#else
  std::memset(memory, kPoison, end);
#endif
  std::memset(dynamic_memory, kPoison, launch.dynamic_bytes);
}

void* SharedArray::address() {
  if (launch_ == launch.number) return memory_;
  launch.static_bytes += bytes_;
  const std::size_t begin = (launch.static_end + alignment_ - 1) / alignment_ * alignment_;
  const std::size_t end = begin + bytes_ + kGap;
  if (launch.static_bytes > kStaticSharedBytes || end > 2 * kStaticSharedBytes)
    kernel_fault(str(launch.static_bytes, " bytes of static shared memory: a block has ",
                     kStaticSharedBytes));
  if (launch.static_bytes + launch.dynamic_bytes > settings().shared_bytes())
    kernel_fault(str(launch.static_bytes, " bytes of static and ", launch.dynamic_bytes,
                     " of dynamic shared memory: a block has ", settings().shared_bytes()));
  launch_ = launch.number;
  launch.static_end = end;
  memory_ = memory + begin;
  ASAN_UNPOISON_MEMORY_REGION(memory_, bytes_);
  std::memset(memory_, kPoison, bytes_);
  return memory_;
}

void* dynamic_shared() {
  if (launch.dynamic_bytes == 0)
    kernel_fault("the kernel uses dynamic shared memory, but was launched with none");
  return dynamic_memory;
}

}  // namespace fathom::gpu::sim
