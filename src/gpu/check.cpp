#include "gpu/check.h"

#include "core/error.h"

namespace fathom::gpu {
namespace {

bool is_for_the_user(cudaError_t status) {
  return status == cudaErrorMemoryAllocation || status == cudaErrorNoDevice ||
         status == cudaErrorInsufficientDriver || status == cudaErrorInvalidDevice ||
         status == cudaErrorDevicesUnavailable;
}

}  // namespace

std::string free_memory_text() {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return "";
  return str("the GPU has ", free / kMiB, " MiB free of ", total / kMiB, " MiB");
}

void check(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  const bool user = is_for_the_user(status);
  std::string more =
      user ? "" : ", of this call or of a kernel or copy that was enqueued before it";
  if (status == cudaErrorMemoryAllocation)
    more = str("; ", free_memory_text(), "; end what else runs there, lower run.memory_limit_gib, ",
               "or need less: ", kNeedLess);
  fail(user ? ErrorKind::config : ErrorKind::internal, file, ":", line, ": ", call, " returned ",
       cudaGetErrorName(status), " (", cudaGetErrorString(status), ")", more);
}

}  // namespace fathom::gpu
