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

void check(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  const bool user = is_for_the_user(status);
  fail(user ? ErrorKind::config : ErrorKind::internal, file, ":", line, ": ", call, " returned ",
       cudaGetErrorName(status), " (", cudaGetErrorString(status), ")",
       user ? "" : ", of this call or of a kernel or copy that was enqueued before it");
}

}  // namespace fathom::gpu
