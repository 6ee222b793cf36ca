#pragma once

#include <cstddef>
#include <vector>

namespace fathom::gpu::sim {

/// Memory for one fiber's calls; below its low end lies a page that nothing may touch.
struct FiberStack {
  std::byte* low = nullptr;
  std::byte* top = nullptr;  ///< where its calls begin
};

/// Stacks, handed out again last returned first, so that short-lived fibers share a warm one.
class StackPool {
 public:
  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  /// Throws Error(internal) when the system has no memory left.
  FiberStack take();
  void give_back(FiberStack stack) { free_.push_back(stack); }

 private:
  void grow();

  std::vector<FiberStack> free_;
  std::vector<std::byte*> slabs_;
};

/// Where a fiber, or the thread that runs fibers, continues.
struct FiberContext {
  void* stack_pointer = nullptr;
  // For the address sanitizer: the stack that it is told of, and what it keeps beside it.
  const void* low = nullptr;
  std::size_t bytes = 0;
  void* fake_stack = nullptr;
};

/// A context that starts with entry() on an empty stack; entry must never return.
FiberContext make_fiber(const FiberStack& stack, void (*entry)());

/// Continues `to`; returns when someone switches back to `from`.
void switch_fiber(FiberContext& from, FiberContext& to);

/// Continues `to` and never returns: the fiber is at its end, and its stack may be reused from
/// then.
[[noreturn]] void leave_fiber(FiberContext& to);

/// Must be the first call of an entry.
void fiber_entered();

}  // namespace fathom::gpu::sim
