#pragma once

#include <cuda_runtime.h>
#include <string>

// Why a call of the runtime was refused, and the fault that makes all later ones fail. CUDA gives a
// number only; the stand-in knows the reason, and tells it through cudaGetErrorString().

namespace fathom::gpu::sim {

/// Notes why the call at hand is refused, and returns `status`, which must be an error.
cudaError_t refuse(cudaError_t status, const std::string& reason);

/// Notes what went wrong on a device. As on a real one, it stays: every later call of the runtime
/// reports cudaErrorLaunchFailure. The first fault is kept.
void set_fault(const std::string& reason);
bool faulted();
std::string fault_reason();

/// The fault if there is one, otherwise `status`.
cudaError_t fault_or(cudaError_t status);

/// Forgets the fault and the last refusal, for tests that plant them. A real device cannot do this.
void clear_faults();

}  // namespace fathom::gpu::sim
