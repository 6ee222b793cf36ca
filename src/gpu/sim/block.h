#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <source_location>
#include <string>

// Runs a kernel's thread blocks, one after another; each of a block's threads is a fiber, which
// runs until it must wait for others. Only the holder of the runtime's lock runs kernels, so that
// all of this is the state of one block.

namespace fathom::gpu::sim {

constexpr unsigned kWarp = 32;
constexpr unsigned kMaxThreads = 1024;
/// What a block may have: shared memory known at compile time, and in all at most, on a device
/// that has most of it, when a kernel has opted in (Settings::shared_bytes()).
constexpr std::size_t kStaticSharedBytes = 48 << 10;
constexpr std::size_t kSharedBytes = 227 << 10;

/// A launch whose arguments have been checked.
struct Grid {
  dim3 blocks;
  dim3 threads;  ///< whole warps
  std::size_t dynamic_bytes = 0;
  void (*call)(const void* arguments) = nullptr;  ///< runs the kernel's body for one thread
  const void* arguments = nullptr;
};

/// Runs every block, in the orders of settings(). Throws Error(internal) when threads of a block
/// wait for each other in ways that the hardware does not define, naming block, threads and source
/// lines.
void run_grid(const Grid& grid);

/// The running thread's place: threadIdx, blockIdx, blockDim and gridDim.
struct Position {
  uint3 thread, block;
  dim3 threads, blocks;
};
extern Position position;

using Where = std::source_location;

// What follows is for kernels: it uses the running thread.

/// Waits until every thread of the block has come to the same place.
void meet_block(const Where& where);

/// Waits until all lanes of the thread's warp have come to the same place, each with a word. The
/// words by lane; valid until the lane's next but one call. `mask` must name all lanes.
const std::uint64_t* meet_warp(unsigned mask, std::uint64_t word, const Where& where);

/// The thread's place in its warp.
unsigned lane();

/// Ends the kernel with a fault.
[[noreturn]] void kernel_fault(const std::string& reason, const Where& where = Where::current());

/// Shared memory of one declaration in a kernel. It is found anew in each launch and filled with
/// 0xff at the start of each block: NaN as floats, -1 as integers.
class SharedArray {
 public:
  constexpr SharedArray(std::size_t bytes, std::size_t alignment)
      : bytes_(bytes), alignment_(alignment) {}
  void* address();

 private:
  std::size_t bytes_;
  std::size_t alignment_;
  std::uint64_t launch_ = 0;  // of which memory_ is
  std::byte* memory_ = nullptr;
};

/// The launch's own shared memory; the kernel faults if the launch asked for none.
void* dynamic_shared();

}  // namespace fathom::gpu::sim
