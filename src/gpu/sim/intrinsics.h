#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <cuda_runtime.h>
#include <type_traits>

#include "gpu/sim/block.h"

// What kernels may use of CUDA's extensions, for g++: the same names with the same meaning, on the
// fibers of block.h. A name that is not here does not compile, and needs a twin here first.

#define threadIdx (::fathom::gpu::sim::position.thread)
#define blockIdx (::fathom::gpu::sim::position.block)
#define blockDim (::fathom::gpu::sim::position.threads)
#define gridDim (::fathom::gpu::sim::position.blocks)

#define __launch_bounds__(...)

// Not static arrays: each launch finds its own, poisoned, and within the hardware's limits.
#define FATHOM_SHARED(type, name, count)                                                \
  static constinit ::fathom::gpu::sim::SharedArray name##_array(sizeof(type) * (count), \
                                                                alignof(type));         \
  type* const name = static_cast<type*>(name##_array.address())
#define FATHOM_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::fathom::gpu::sim::dynamic_shared())

// --- barriers ---

inline void __syncthreads(const fathom::gpu::sim::Where& where = std::source_location::current()) {
  fathom::gpu::sim::meet_block(where);
}

inline void __syncwarp(unsigned mask = 0xffffffffu,
                       const fathom::gpu::sim::Where& where = std::source_location::current()) {
  fathom::gpu::sim::meet_warp(mask, 0, where);
}

// --- exchanges within a warp ---

namespace fathom::gpu::sim {

/// The value of lane source(lane, first lane of its segment, end of its segment); its own where
/// that is outside of what the exchange defines, which `source` says by giving the lane itself.
template <typename T, typename Source>
T shuffle(unsigned mask, T value, int width, const Where& where, Source source) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  if (width < 1 || width > 32 || (width & (width - 1)) != 0)
    kernel_fault("a shuffle's width is not a power of two up to 32", where);
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  const std::uint64_t* words = meet_warp(mask, word, where);
  const int self = static_cast<int>(lane());
  const int first = self & ~(width - 1);
  std::memcpy(&value, &words[source(self, first, first + width)], sizeof value);
  return value;
}

/// One bit of each lane.
inline unsigned vote(unsigned mask, bool bit, const Where& where) {
  const std::uint64_t* words = meet_warp(mask, bit, where);
  unsigned bits = 0;
  for (unsigned i = 0; i < kWarp; ++i) bits |= static_cast<unsigned>(words[i]) << i;
  return bits;
}

}  // namespace fathom::gpu::sim

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              const fathom::gpu::sim::Where& where = std::source_location::current()) {
  return fathom::gpu::sim::shuffle(mask, value, width, where, [=](int, int first, int end) {
    return first + (source & (end - first - 1));
  });
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 const fathom::gpu::sim::Where& where = std::source_location::current()) {
  const int step = static_cast<int>(delta);
  return fathom::gpu::sim::shuffle(mask, value, width, where, [=](int self, int first, int) {
    return self - step < first ? self : self - step;
  });
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const fathom::gpu::sim::Where& where = std::source_location::current()) {
  const int step = static_cast<int>(delta);
  return fathom::gpu::sim::shuffle(mask, value, width, where, [=](int self, int, int end) {
    return self + step >= end ? self : self + step;
  });
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  const fathom::gpu::sim::Where& where = std::source_location::current()) {
  return fathom::gpu::sim::shuffle(mask, value, width, where, [=](int self, int, int end) {
    return (self ^ lane_mask) >= end ? self : self ^ lane_mask;
  });
}

inline unsigned __ballot_sync(
    unsigned mask, int predicate,
    const fathom::gpu::sim::Where& where = std::source_location::current()) {
  return fathom::gpu::sim::vote(mask, predicate != 0, where);
}

inline int __any_sync(unsigned mask, int predicate,
                      const fathom::gpu::sim::Where& where = std::source_location::current()) {
  return fathom::gpu::sim::vote(mask, predicate != 0, where) != 0;
}

inline int __all_sync(unsigned mask, int predicate,
                      const fathom::gpu::sim::Where& where = std::source_location::current()) {
  return fathom::gpu::sim::vote(mask, predicate != 0, where) == 0xffffffffu;
}

// --- atomics: fibers switch only where they wait, so that plain arithmetic is atomic ---

namespace fathom::gpu::sim {

template <typename T>
constexpr bool kAdds =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int> ||
    std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long>;
template <typename T>
constexpr bool kCompares =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long>;

}  // namespace fathom::gpu::sim

template <typename T>
requires fathom::gpu::sim::kAdds<T> T atomicAdd(T* address, std::type_identity_t<T> value) {
  const T before = *address;
  *address = before + value;
  return before;
}

template <typename T>
requires fathom::gpu::sim::kCompares<T> T atomicMax(T* address, std::type_identity_t<T> value) {
  const T before = *address;
  if (value > before) *address = value;
  return before;
}

template <typename T>
requires fathom::gpu::sim::kCompares<T> T atomicCAS(T* address, std::type_identity_t<T> expected,
                                                    std::type_identity_t<T> value) {
  const T before = *address;
  if (before == expected) *address = value;
  return before;
}

// --- arithmetic and loads ---

inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}

inline float __expf(float x) {
  return std::exp(x);
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
