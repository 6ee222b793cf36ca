#pragma once

namespace fathom::kernels {

/// Names a stretch of the host's work, and the kernels that it launches, for profilers that draw a
/// GPU's time line (NVTX); ranges nest. Costs nothing to speak of without a profiler, and nothing
/// on the CPU.
class Range {
 public:
  explicit Range(const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace fathom::kernels
