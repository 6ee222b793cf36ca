#include "kernels/peak.h"

#include <algorithm>

#include "core/timer.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/vector.h"

namespace fathom::kernels {

double measure_gemm_peak_gflops(Device& device) {
  constexpr std::int64_t kSize = 1024;
  constexpr double kSeconds = 0.2;
  const Tensor a = Tensor::empty(device, {kSize, kSize}), b = Tensor::empty(device, {kSize, kSize});
  const Tensor c = Tensor::empty(device, {kSize, kSize});
  fill(a, 0.5f);
  fill(b, 0.25f);
  gemm(a, Trans::no, b, Trans::no, c);
  double best = 1e30;
  for (const Timer total; total.seconds() < kSeconds;) {
    const Timer timer;
    gemm(a, Trans::no, b, Trans::no, c);
    best = std::min(best, timer.seconds());
  }
  return 2e-9 * kSize * kSize * kSize / best;
}

double measure_read_bandwidth(Device& device) {
  // Many times the last-level cache, which would otherwise answer a part of it.
  constexpr std::int64_t kFloats = std::int64_t{128} << 20, kBlock = 32768;
  constexpr double kSeconds = 0.2;
  const Tensor data = Tensor::empty(device, {kFloats});
  fill(data, 1.0f);
  const float* from = data.ptr<float>();
  double best = 1e30;
  float total = 0.0f;
  for (const Timer all; all.seconds() < kSeconds;) {
    const Timer timer;
    KernelScope scope(device);
#pragma omp parallel for schedule(static) reduction(+ : total)
    for (std::int64_t block = 0; block < kFloats; block += kBlock) {
      Vec sums[4] = {};  // several chains, since one waits for its own additions
      for (std::int64_t i = block; i < block + kBlock; i += 4 * kLanes)
        for (int chain = 0; chain < 4; ++chain) sums[chain] += load(from + i + chain * kLanes);
      total += sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
    best = std::min(best, timer.seconds());
  }
  FATHOM_CHECK(total > 0.0f, "a sum of ones is ", total);  // and so has been computed
  return 1e-9 * sizeof(float) * kFloats / best;
}

}  // namespace fathom::kernels
