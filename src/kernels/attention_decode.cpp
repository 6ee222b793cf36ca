#include <cmath>
#include <omp.h>

#include "kernels/attention_checks.h"
#include "kernels/attention_common.h"
#include "kernels/math.h"

// One query a sequence: the cache is read once, at memory speed. A cache is cut into runs of keys
// of fixed length, so that few sequences still occupy all threads and the bits do not depend on
// their number; the partial sums of a head are then merged.

namespace fathom::kernels {
namespace {

using namespace tiles;

constexpr std::int64_t kRun = 256;

struct Decode {
  const AttentionShape& shape;
  Rows q, out;
  const float *keys, *values;
  std::int64_t row;  ///< floats of one cache entry
};

// A run of one sequence's cache for one key head.
struct Run {
  const float *q, *keys, *values;
  std::int64_t count;
};

float dot(const float* a, const float* b, std::int64_t n) {
  Vec sums = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sums += load(a + i) * load(b + i);
  float total = sum_of(sums);
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

// partial[heads of the group, 2 + depth] = largest score, sum of exponentials, weighted values.
void attend_run(const Decode& in, const Run& run, float* weights, float* partial) {
  const std::int64_t depth = in.shape.head_dim, group = in.shape.heads / in.shape.kv_heads;
  for (std::int64_t j = 0; j < run.count; ++j)
    for (std::int64_t g = 0; g < group; ++g)
      weights[g * kRun + j] = in.shape.scale * dot(run.q + g * depth, run.keys + j * in.row, depth);
  for (std::int64_t g = 0; g < group; ++g) {
    float* w = weights + g * kRun;
    float* state = partial + g * (2 + depth);
    float largest = w[0], total = 0.0f;
#pragma omp simd reduction(max : largest)
    for (std::int64_t j = 0; j < run.count; ++j) largest = w[j] > largest ? w[j] : largest;
#pragma omp simd reduction(+ : total)
    for (std::int64_t j = 0; j < run.count; ++j) {
      w[j] = exp_f(w[j] - largest);
      total += w[j];
    }
    state[0] = largest;
    state[1] = total;
    std::fill_n(state + 2, depth, 0.0f);
  }
  for (std::int64_t j = 0; j < run.count; ++j) {
    const float* value = run.values + j * in.row;
    for (std::int64_t g = 0; g < group; ++g) {
      const float weight = weights[g * kRun + j];
      float* sum = partial + g * (2 + depth) + 2;
#pragma omp simd
      for (std::int64_t d = 0; d < depth; ++d) sum[d] += weight * value[d];
    }
  }
}

// out[depth] of one head from the partial sums of its runs, which lie `stride` apart.
void merge_runs(const float* partial, std::int64_t runs, std::int64_t stride, std::int64_t depth,
                float* out) {
  float largest = partial[0], total = 0.0f;
  for (std::int64_t r = 1; r < runs; ++r) largest = std::max(largest, partial[r * stride]);
  std::fill_n(out, depth, 0.0f);
  for (std::int64_t r = 0; r < runs; ++r) {
    const float* state = partial + r * stride;
    const float weight = exp_f(state[0] - largest);
    total += weight * state[1];
#pragma omp simd
    for (std::int64_t d = 0; d < depth; ++d) out[d] += weight * state[2 + d];
  }
  const float inverse = 1.0f / total;
#pragma omp simd
  for (std::int64_t d = 0; d < depth; ++d) out[d] *= inverse;
}

}  // namespace

void attention_decode(const AttentionShape& shape, const std::vector<std::int32_t>& slots,
                      const std::vector<std::int32_t>& lengths, const Tensor& q, const Tensor& keys,
                      const Tensor& values, const Tensor& out) {
  check_decode(shape, slots, lengths, q, keys, values, out);
  const std::int64_t depth = shape.head_dim, group = shape.heads / shape.kv_heads;
  const std::int64_t capacity = keys.size(1), kv_heads = shape.kv_heads;
  const auto visible = [&](std::int64_t sequence) -> std::int64_t {
    const std::int64_t length = lengths[static_cast<std::size_t>(sequence)];
    return shape.window > 0 ? std::min(length, shape.window) : length;
  };
  std::int64_t runs = 0;  // of the longest sequence
  for (std::int64_t i = 0; i < q.rows(); ++i) runs = std::max(runs, (visible(i) + kRun - 1) / kRun);

  const std::int64_t items = q.rows() * kv_heads * runs, state = group * (2 + depth);
  const std::int64_t threads = omp_get_max_threads();
  const Tensor memory = Tensor::empty(q.device(), {items * state + threads * group * kRun});
  float* partials = memory.ptr<float>();
  float* weights = partials + items * state;
  const Decode in{shape, Rows(q), Rows(out), keys.ptr<float>(), values.ptr<float>(), keys.size(2)};
  KernelScope scope(q.device());
#pragma omp parallel num_threads(static_cast <int>(threads)) if (items > 1)
  {
#pragma omp for schedule(static)
    for (std::int64_t item = 0; item < items; ++item) {
      const std::int64_t run = item % runs, pair = item / runs;
      const std::int64_t sequence = pair / kv_heads, kv_head = pair % kv_heads;
      const std::int64_t count = std::min(kRun, visible(sequence) - run * kRun);
      if (count <= 0) continue;
      const std::int64_t first =
          lengths[static_cast<std::size_t>(sequence)] - visible(sequence) + run * kRun;
      const std::int64_t offset =
          (slots[static_cast<std::size_t>(sequence)] * capacity + first) * in.row + kv_head * depth;
      attend_run(
          in,
          {in.q.at(sequence, kv_head * group * depth), in.keys + offset, in.values + offset, count},
          weights + omp_get_thread_num() * group * kRun, partials + item * state);
    }
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < q.rows() * shape.heads; ++i) {
      const std::int64_t sequence = i / shape.heads, head = i % shape.heads;
      const float* first = partials + (sequence * kv_heads + head / group) * runs * state +
                           head % group * (2 + depth);
      merge_runs(first, (visible(sequence) + kRun - 1) / kRun, state, depth,
                 in.out.at(sequence, head * depth));
    }
  }
}

}  // namespace fathom::kernels
