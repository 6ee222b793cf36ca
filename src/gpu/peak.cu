#include <algorithm>

#include "gpu/gpu_device.h"
#include "kernels/gemm_backend.h"
#include "kernels/peak.h"
#include "kernels/rows.h"

namespace fathom::kernels {
namespace {

// Sizes are doubled until one run takes so long that the start of a kernel (some microseconds) is
// nothing beside it.
constexpr double kLongEnough = 1e-3;
constexpr int kRuns = 10;

// Seconds that the device takes for `work`, at best.
template <typename Work>
double measure(Device& device, Work work) {
  const gpu::Event begin = gpu::make_timing_event(), end = gpu::make_timing_event();
  const cudaStream_t stream = gpu::stream_of(device);
  float best = 1e30f;
  for (int run = 0; run < kRuns; ++run) {
    FATHOM_CUDA(cudaEventRecord(begin.get(), stream));
    work();
    FATHOM_CUDA(cudaEventRecord(end.get(), stream));
    FATHOM_CUDA(cudaEventSynchronize(end.get()));
    float milliseconds = 0.0f;
    FATHOM_CUDA(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
    best = std::min(best, milliseconds);
  }
  return 1e-3 * best;
}

// Whether the arena has room for arrays of so many bytes in all, and as much again.
bool fits(const Device& device, std::int64_t bytes) {
  const MemoryStats memory = device.memory();
  return static_cast<std::size_t>(bytes) <= (memory.limit - memory.in_use) / 2;
}

FATHOM_HOST_DEVICE inline void put(float& to, float value) {
  to = value;
}
FATHOM_HOST_DEVICE inline void put(bf16& to, float value) {
  to = to_bf16(value);
}

// Values that differ, in [-1/2, 1/2): of equal ones a device draws less power, and multiplies
// faster than what it is to be measured for.
template <typename T>
Tensor varied(Device& device, std::int64_t size, DType dtype) {
  const Tensor out = Tensor::empty(device, {size, size}, dtype);
  T* to = out.ptr<T>();
  for_each_element(
      device, out.elements(), FATHOM_BODY(std::int64_t i) {
        const auto hash = static_cast<std::uint32_t>(i) * 2654435761u;
        put(to[i], static_cast<float>(hash >> 8) * 0x1p-24f - 0.5f);
      });
  return out;
}

template <typename T>
double seconds_of_product(Device& device, std::int64_t size, DType factors) {
  const Tensor a = varied<T>(device, size, factors), b = varied<T>(device, size, factors);
  const Tensor c = Tensor::empty(device, {size, size});
  const MatrixProduct product{
      Trans::no, Trans::no,     size, size, size, precision_of(device), a.ptr<void>(),
      size,      b.ptr<void>(), size, 1.0f, 0.0f, c.ptr<float>(),       size};
  return measure(device, [&] { multiply(device, product); });
}

void sum_rows(const Tensor& data, const Tensor& sums) {
  const std::int64_t n = data.columns();
  const float* from = data.ptr<float>();
  float* to = sums.ptr<float>();
  for_each_row(
      data.device(), data.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float total = row.sum(n, [&](std::int64_t i) { return from[r * n + i]; });
        row.each(1, [&](std::int64_t) { to[r] = total; });
      });
}

double seconds_of_reading(Device& device, std::int64_t floats) {
  constexpr std::int64_t kRow = 16384;
  const std::int64_t rows = floats / kRow;
  const Tensor data = Tensor::zeros(device, {rows, kRow}), sums = Tensor::empty(device, {rows});
  return measure(device, [&] { sum_rows(data, sums); });
}

}  // namespace

double measure_gemm_peak_gflops(Device& device) {
  constexpr std::int64_t kLargest = 8192;
  const bool narrow = precision_of(device) == Precision::bf16;
  for (std::int64_t size = 128;; size *= 2) {
    const double seconds = narrow ? seconds_of_product<bf16>(device, size, DType::bf16)
                                  : seconds_of_product<float>(device, size, DType::f32);
    if (seconds >= kLongEnough || size == kLargest || !fits(device, 48 * size * size))
      return 2e-9 * static_cast<double>(size * size * size) / seconds;
  }
}

double measure_read_bandwidth(Device& device) {
  // At its largest, many times the last-level cache, which answers a part of anything smaller.
  constexpr std::int64_t kLargest = std::int64_t{512} << 20;
  for (std::int64_t floats = std::int64_t{1} << 20;; floats *= 2) {
    const double seconds = seconds_of_reading(device, floats);
    const auto bytes = static_cast<std::int64_t>(sizeof(float)) * floats;
    if (seconds >= kLongEnough || floats == kLargest || !fits(device, 2 * bytes))
      return 1e-9 * static_cast<double>(bytes) / seconds;
  }
}

}  // namespace fathom::kernels
