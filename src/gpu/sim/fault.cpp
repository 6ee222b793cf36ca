#include "gpu/sim/fault.h"

#include <mutex>

// Errors as the runtime hands them out: the last one of a thread, and the texts.

namespace fathom::gpu::sim {
namespace {

struct Refusal {
  cudaError_t status = cudaSuccess;
  std::string text;
};

thread_local Refusal last_refusal;

std::mutex fault_mutex;  // the background thread of the streams sets faults as well
bool has_fault = false;
std::string fault_text;

const char* plain_text(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidMemcpyDirection:
      return "invalid copy direction for memcpy";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorNotSupported:
      return "operation not supported";
    default:
      return "unrecognized error code";
  }
}

}  // namespace

cudaError_t refuse(cudaError_t status, const std::string& reason) {
  last_refusal = {status, std::string(plain_text(status)) + ": " + reason};
  return status;
}

void set_fault(const std::string& reason) {
  const std::lock_guard lock(fault_mutex);
  if (has_fault) return;
  has_fault = true;
  fault_text = std::string(plain_text(cudaErrorLaunchFailure)) + ": " + reason;
}

bool faulted() {
  const std::lock_guard lock(fault_mutex);
  return has_fault;
}

std::string fault_reason() {
  const std::lock_guard lock(fault_mutex);
  return fault_text;
}

cudaError_t fault_or(cudaError_t status) {
  return faulted() ? cudaErrorLaunchFailure : status;
}

void clear_faults() {
  const std::lock_guard lock(fault_mutex);
  has_fault = false;
  fault_text.clear();
  last_refusal = {};
}

}  // namespace fathom::gpu::sim

using namespace fathom::gpu;

cudaError_t cudaGetLastError() {
  const cudaError_t status = sim::last_refusal.status;
  sim::last_refusal.status = cudaSuccess;
  return sim::fault_or(status);
}

cudaError_t cudaPeekAtLastError() {
  return sim::fault_or(sim::last_refusal.status);
}

// The text lives until the thread's next call of this function.
const char* cudaGetErrorString(cudaError_t status) {
  static thread_local std::string text;
  if (status == cudaErrorLaunchFailure && sim::faulted()) {
    text = sim::fault_reason();
  } else if (status != cudaSuccess && !sim::last_refusal.text.empty() &&
             sim::last_refusal.text.rfind(sim::plain_text(status), 0) == 0) {
    text = sim::last_refusal.text;
  } else {
    text = sim::plain_text(status);
  }
  return text.c_str();
}

const char* cudaGetErrorName(cudaError_t status) {
  static thread_local std::string name;
  name = status == cudaSuccess ? "cudaSuccess"
                               : "cudaError " + std::to_string(static_cast<int>(status));
  return name.c_str();
}
