#include "gpu/sim/kernel_launch.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unordered_map>

#include "core/error.h"
#include "core/sanitizer.h"
#include "gpu/sim/block.h"
#include "gpu/sim/fault.h"
#include "gpu/sim/memory.h"
#include "gpu/sim/recording.h"
#include "gpu/sim/settings.h"
#include "gpu/sim/stream_queue.h"
#include "gpu/sim/streams.h"

namespace fathom::gpu::sim {
namespace {

// Dynamic shared memory that kernels have opted in to.
std::unordered_map<const void*, std::size_t>& opted_in() {
  static std::unordered_map<const void*, std::size_t> bytes;
  return bytes;
}

// The kernel's own name where the linker knows it; a template over a local lambda has none, but the
// lambda's type says where it was written.
std::string kernel_name(const LaunchRequest& request) {
  Dl_info info = {};
  if (dladdr(request.kernel, &info) != 0 && info.dli_saddr == request.kernel && info.dli_sname) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> plain(
        abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
    return plain ? plain.get() : info.dli_sname;
  }
  const std::size_t types = request.signature.find("[with ");
  return "of " + std::string(request.signature.substr(types == std::string_view::npos ? 0 : types));
}

template <typename... Parts>
[[noreturn]] void refuse_launch(const LaunchRequest& request, const Parts&... parts) {
  fail(ErrorKind::internal, "kernel launch: ", kernel_name(request), ": ", parts...);
}

bool is_mapped(std::uintptr_t address) {
  // The address sanitizer maps its shadow below this, where two small numbers side by side point.
  constexpr std::uintptr_t kShadowEnd = 0x10007fff8000;
  if (kAddressSanitizer && address < kShadowEnd) return false;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGE_SIZE));
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address / page * page), 1, &resident) == 0;
}

// What is wrong with an address for kernels of a device; empty if nothing is.
std::string complaint(const void* address, int device) {
  if (const auto range = find_range(address)) {
    if (range->home == Home::pinned || range->device == device) return {};
    return str("memory of device ", range->device, " in a kernel of device ", device);
  }
  return in_device_space(address) ? "device memory that is not allocated (any more)"
                                  : "host memory";
}

}  // namespace

void check_shape(const LaunchRequest& request) {
  if (faulted()) fail(ErrorKind::internal, "kernel launch: ", fault_reason());
  const dim3& g = request.blocks;
  const dim3& b = request.threads;
  const auto threads = std::uint64_t{1} * b.x * b.y * b.z;
  if (threads == 0 || threads > kMaxThreads || b.z > 64)
    refuse_launch(request, threads, " threads a block (", b.x, " x ", b.y, " x ", b.z,
                  "): allowed are 1 to ", kMaxThreads, ", at most 64 in z");
  if (threads % kWarp != 0)
    refuse_launch(request, threads, " threads a block: kernels are written for whole warps of ",
                  kWarp);
  if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535)
    refuse_launch(request, "a grid of ", g.x, " x ", g.y, " x ", g.z,
                  " blocks: allowed are 1 to 2^31-1 x 65535 x 65535");
  const auto found = opted_in().find(request.kernel);
  const std::size_t limit = found == opted_in().end() ? kStaticSharedBytes : found->second;
  if (request.shared_bytes > limit)
    refuse_launch(request, request.shared_bytes, " bytes of dynamic shared memory: ", limit,
                  " are allowed unless the kernel opts in to more");
  if (!is_stream(request.stream)) refuse_launch(request, "no such stream");
}

void check_pointer(const LaunchRequest& request, int argument, const void* pointer) {
  if (!pointer) return;
  const std::string reason = complaint(pointer, device_of(request.stream));
  if (!reason.empty())
    refuse_launch(request, "argument ", argument, " = ", pointer, " is ", reason);
}

void check_words(const LaunchRequest& request, int argument, const void* object,
                 std::size_t bytes) {
  // Below lie no mappings of a program that the loader places freely, but many numbers.
  constexpr std::uintptr_t kLowest = std::uintptr_t{1} << 40;
  constexpr std::uintptr_t kHighest = std::uintptr_t{1} << 47;
  for (std::size_t at = 0; at + sizeof(void*) <= bytes; at += sizeof(void*)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(object) + at, sizeof word);
    if (word < kLowest || word >= kHighest) continue;
    const auto* address = reinterpret_cast<const void*>(word);
    if (!in_device_space(address) && !is_mapped(word)) continue;
    const std::string reason = complaint(address, device_of(request.stream));
    if (!reason.empty())
      refuse_launch(request, "argument ", argument, " holds at byte ", at, " the pointer ", address,
                    ", which is ", reason);
  }
}

void submit(const LaunchRequest& request, void (*call)(const void*),
            std::function<const void*()> arguments) {
  if (recording()) {
    const dim3 &g = request.blocks, &b = request.threads;
    record(str("kernel ", std::uint64_t{g.x} * g.y * g.z, " ", b.x * b.y * b.z, " ",
               request.shared_bytes, " ", kernel_name(request)));
  }
  enqueue(request.stream, [=, arguments = std::move(arguments)] {
    try {
      run_grid({.blocks = request.blocks,
                .threads = request.threads,
                .dynamic_bytes = request.shared_bytes,
                .call = call,
                .arguments = arguments()});
    } catch (const Error& error) {
      fail(error.kind(), "kernel ", kernel_name(request), ", ", error.what());
    }
  });
  if (faulted()) fail(ErrorKind::internal, "kernel launch: ", fault_reason());
}

}  // namespace fathom::gpu::sim

using namespace fathom::gpu;

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
    return sim::refuse(cudaErrorNotSupported, "cudaFuncSetAttribute: attribute " +
                                                  std::to_string(static_cast<int>(attribute)));
  const std::size_t most = sim::settings().shared_bytes();
  if (value < 0 || static_cast<std::size_t>(value) > most)
    return sim::refuse(cudaErrorInvalidValue, "cudaFuncSetAttribute: " + std::to_string(value) +
                                                  " bytes of shared memory: a block has " +
                                                  std::to_string(most));
  sim::opted_in()[function] = static_cast<std::size_t>(value);
  return sim::fault_or(cudaSuccess);
}
