// Prints what GEMM, attention and the GEMV of decoding reach, each as a share of the machine's peak
// measured in the same run. Threads: OMP_NUM_THREADS. Usage: bench_kernels [seconds a line, 0.5].

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/timer.h"
#include "kernels/attention.h"
#include "kernels/backend.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/gemv.h"
#include "kernels/peak.h"
#include "kernels/threads.h"

namespace {

using namespace fathom;
using namespace fathom::kernels;

struct Timing {
  double min, median;
};

// Seconds of a call. A GPU runs behind the host: there a time is that of so many calls, up to when
// it has run them all, that starting the first and waiting for the last is nothing beside it.
template <typename Work>
Timing measure(Device& device, double seconds, Work work) {
  constexpr double kLongEnough = 5e-3;
  const auto run = [&](int calls) {
    const Timer timer;
    for (int call = 0; call < calls; ++call) work();
    device.synchronize();
    return timer.seconds() / calls;
  };
  run(1);
  const int calls = backend().owns_memory ? 1 + static_cast<int>(kLongEnough / run(1)) : 1;
  std::vector<double> times;
  for (const Timer total; total.seconds() < seconds || times.size() < 5;)
    times.push_back(run(calls));
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

// One line: `amount` GFLOP or GB a call, and its share of the peak at the median.
void report(const char* name, double amount, const char* unit, double peak, Timing t) {
  std::printf("%-34s %9.3f ms  %7.1f %s (median %7.1f, %3.0f %% of peak)\n", name, 1e3 * t.min,
              amount / t.min, unit, amount / t.median, 100 * amount / t.median / peak);
  std::fflush(stdout);
}

Tensor filled(Device& device, Shape shape, DType dtype = DType::f32) {
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int>(i * 7919 % 2017) - 1008) / 1008.0f;
  const Tensor tensor = Tensor::empty(device, shape, dtype);
  copy_from_host(tensor, values);
  return tensor;
}

// Of products whose factors are bf16, beside `peak` for f32. A core of a CPU that multiplies bf16
// takes two pairs in the place of one of f32.
double measure_bf16_peak(double peak) {
  if (!backend().owns_memory) return 2 * peak;
  return measure_gemm_peak_gflops(
      *make_device({.limit_bytes = std::size_t{2} << 30, .precision = Precision::bf16}));
}

void bench_gemm(Device& device, double seconds, double peak) {
  struct Size {
    std::int64_t m, n, k;
  };
  for (DType dtype : {DType::f32, DType::bf16}) {
    if (dtype == DType::bf16 && !native_bf16()) continue;
    const double peak_of_type = dtype == DType::bf16 ? measure_bf16_peak(peak) : peak;
    for (const auto& [m, n, k] : {Size{1024, 768, 768}, Size{1024, 3072, 768},
                                  Size{1024, 768, 3072}, Size{256, 50257, 768}}) {
      const Tensor x = filled(device, {m, k}), w = filled(device, {n, k}, dtype);
      const Tensor y = Tensor::empty(device, {m, n});
      const std::string name = str("gemm ", to_string(dtype), " ", m, "x", n, "x", k);
      report(name.c_str(), 2e-9 * static_cast<double>(m * n * k), "GFLOP/s", peak_of_type,
             measure(device, seconds, [&] { gemm(x, Trans::no, w, Trans::yes, y); }));
    }
  }
}

struct AttentionCase {
  std::int64_t sequences, length, heads, kv_heads, head_dim;
  float dropout;
};

// Operations are those of the scores below the diagonal: two products forward, five backward.
void bench_attention(Device& device, double seconds, double peak, const AttentionCase& c) {
  const AttentionShape shape{c.heads, c.kv_heads, c.head_dim, 0,
                             1.0f / std::sqrt(static_cast<float>(c.head_dim))};
  std::vector<std::int32_t> starts{0};
  AttentionDropout dropout;
  dropout.probability = c.dropout;
  for (std::int64_t s = 1; s <= c.sequences; ++s) {
    starts.push_back(static_cast<std::int32_t>(s * c.length));
    dropout.samples.push_back(static_cast<std::uint32_t>(s));
  }
  const std::int64_t rows = c.sequences * c.length, width = c.heads * c.head_dim,
                     kv_width = c.kv_heads * c.head_dim;
  const Tensor qkv = filled(device, {rows, width + 2 * kv_width}),
               dout = filled(device, {rows, width});
  const Tensor grad = Tensor::empty(device, qkv.shape()),
               out = Tensor::empty(device, {rows, width});
  const Tensor lse = Tensor::empty(device, {rows, c.heads});
  const auto q = [&](const Tensor& x) { return x.slice_columns(0, width); };
  const auto k = [&](const Tensor& x) { return x.slice_columns(width, kv_width); };
  const auto v = [&](const Tensor& x) { return x.slice_columns(width + kv_width, kv_width); };
  const double product = 2e-9 * static_cast<double>(c.sequences * c.heads * c.head_dim) *
                         static_cast<double>(c.length * (c.length + 1) / 2);
  const std::string name = str("attention ", c.sequences, "x", c.length, " heads ", c.heads, "/",
                               c.kv_heads, "x", c.head_dim, c.dropout > 0 ? " dropout" : "");
  report((name + " fwd").c_str(), 2 * product, "GFLOP/s", peak, measure(device, seconds, [&] {
           attention_forward(shape, starts, dropout, q(qkv), k(qkv), v(qkv), out, lse);
         }));
  report((name + " bwd").c_str(), 5 * product, "GFLOP/s", peak, measure(device, seconds, [&] {
           attention_backward(shape, starts, dropout, q(qkv), k(qkv), v(qkv), out, lse, dout,
                              q(grad), k(grad), v(grad));
         }));
}

// Enough copies of a weight that no cache holds them, as in a model.
void bench_gemv(Device& device, double seconds, double peak) {
  constexpr std::int64_t kBytes = std::int64_t{128} << 20;
  struct Size {
    std::int64_t n, k;
    Trans trans;
  };
  for (DType dtype : {DType::f32, DType::bf16})
    for (const auto& [n, k, trans] : {Size{49152, 576, Trans::yes}, Size{576, 1536, Trans::yes},
                                      Size{50257, 768, Trans::yes}, Size{3072, 768, Trans::no}})
      for (std::int64_t rows : {1, 4, 8}) {
        if (!gemv_suits(rows, trans)) continue;
        const std::int64_t bytes = n * k * static_cast<std::int64_t>(size_of(dtype));
        std::vector<Tensor> weights;
        for (std::int64_t i = 0; i == 0 || i < kBytes / bytes; ++i)
          weights.push_back(filled(device, trans == Trans::yes ? Shape{n, k} : Shape{k, n}, dtype));
        const Tensor x = filled(device, {rows, k}), y = Tensor::empty(device, {rows, n});
        const std::string name = str("gemv ", to_string(dtype), " ", rows, " rows ", n, "x", k,
                                     trans == Trans::yes ? "" : " (W [k, n])");
        report(name.c_str(), 1e-9 * static_cast<double>(bytes * std::ssize(weights)), "GB/s", peak,
               measure(device, seconds, [&] {
                 for (const Tensor& w : weights) gemv(x, w, trans, {}, y);
               }));
      }
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  const auto device = make_device({.limit_bytes = std::size_t{4} << 30});
  const double flops = measure_gemm_peak_gflops(*device),
               bandwidth = measure_read_bandwidth(*device);
  std::printf("%s, %d threads: GEMM peak %.1f GFLOP/s f32, reads %.1f GB/s\n", gemm_library(),
              threads(), flops, bandwidth);
  bench_gemm(*device, seconds, flops);
  for (const float dropout : {0.0f, 0.1f})
    for (const AttentionCase& c :
         {AttentionCase{4, 256, 12, 12, 64, dropout}, AttentionCase{4, 1024, 12, 12, 64, dropout},
          AttentionCase{4, 256, 9, 3, 64, dropout}, AttentionCase{32, 32, 9, 3, 64, dropout}})
      bench_attention(*device, seconds, flops, c);
  bench_gemv(*device, seconds, bandwidth);
}
