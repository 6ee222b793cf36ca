#include "gpu/sim/fiber.h"

#include <cstdint>
#include <sys/mman.h>

#include "core/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "fibers switch by x86-64 instructions"
#endif

// void fathom_sim_switch(void** save, void* load): keeps the registers that a call must preserve on
// the present stack, whose pointer goes to *save, and takes them from the other one. Kernels leave
// the rounding modes alone, so those are not switched.
asm(R"(
.text
.globl fathom_sim_switch
.hidden fathom_sim_switch
.type fathom_sim_switch, @function
.p2align 4
fathom_sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fathom_sim_switch, .-fathom_sim_switch
)");

extern "C" void fathom_sim_switch(void** save, void* load);

namespace fathom::gpu::sim {
namespace {

constexpr std::size_t kPage = 4096;
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kStackBytes = 256 << 10;  // its frames have red zones
#else
constexpr std::size_t kStackBytes = 64 << 10;
#endif
constexpr std::size_t kStacksInSlab = 64;
constexpr std::size_t kSlabBytes = kStacksInSlab * (kPage + kStackBytes);

}  // namespace

StackPool::~StackPool() {
  for (std::byte* slab : slabs_) munmap(slab, kSlabBytes);
}

FiberStack StackPool::take() {
  if (free_.empty()) grow();
  const FiberStack stack = free_.back();
  free_.pop_back();
#if defined(__SANITIZE_ADDRESS__)
  // The last fiber on it may have been given up in the middle of its calls.
  ASAN_UNPOISON_MEMORY_REGION(stack.low, static_cast<std::size_t>(stack.top - stack.low));
#endif
  return stack;
}

void StackPool::grow() {
  void* memory = mmap(nullptr, kSlabBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  FATHOM_CHECK(memory != MAP_FAILED, "no memory for the stacks of fibers");
  auto* slab = static_cast<std::byte*>(memory);
  slabs_.push_back(slab);
  for (std::size_t i = kStacksInSlab; i-- > 0;) {
    std::byte* guard = slab + i * (kPage + kStackBytes);
    mprotect(guard, kPage, PROT_NONE);
    std::byte* low = guard + kPage;
    // Calls begin at differing offsets, or the live ends of all stacks would fall into the same few
    // sets of every cache.
    const std::size_t colour = i * 17 * 64 % (kStackBytes / 4);
    free_.push_back({low, low + kStackBytes - colour});
  }
}

FiberContext make_fiber(const FiberStack& stack, void (*entry)()) {
  // As fathom_sim_switch() leaves a stack: six registers, then the address to return to. After the
  // return the stack is off by 8 from 16, as at the start of any function.
  auto** frame = reinterpret_cast<void**>(stack.top) - 8;
  for (int i = 0; i < 6; ++i) frame[i] = nullptr;
  frame[6] = reinterpret_cast<void*>(entry);
  frame[7] = nullptr;
  return {.stack_pointer = frame,
          .low = stack.low,
          .bytes = static_cast<std::size_t>(stack.top - stack.low)};
}

#if defined(__SANITIZE_ADDRESS__)

namespace {
FiberContext* left = nullptr;  // the context that the last switch came from, if it goes on later
}

void switch_fiber(FiberContext& from, FiberContext& to) {
  left = &from;
  __sanitizer_start_switch_fiber(&from.fake_stack, to.low, to.bytes);
  fathom_sim_switch(&from.stack_pointer, to.stack_pointer);
  FiberContext* const previous = left;
  const void* low = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(from.fake_stack, &low, &bytes);
  if (previous) {
    previous->low = low;
    previous->bytes = bytes;
  }
}

void leave_fiber(FiberContext& to) {
  left = nullptr;
  __sanitizer_start_switch_fiber(nullptr, to.low, to.bytes);
  void* unused = nullptr;
  fathom_sim_switch(&unused, to.stack_pointer);
  __builtin_unreachable();
}

void fiber_entered() {
  const void* low = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &low, &bytes);
  if (left) {
    left->low = low;
    left->bytes = bytes;
  }
}

#else

void switch_fiber(FiberContext& from, FiberContext& to) {
  fathom_sim_switch(&from.stack_pointer, to.stack_pointer);
}

void leave_fiber(FiberContext& to) {
  void* unused = nullptr;
  fathom_sim_switch(&unused, to.stack_pointer);
  __builtin_unreachable();
}

void fiber_entered() {}

#endif

}  // namespace fathom::gpu::sim
