#pragma once

// The widest vector of floats of the instruction set that a kernel is compiled for. CPU only.

#include <cstdint>
#include <cstring>
#include <immintrin.h>

#include "core/dtype.h"

namespace fathom::kernels {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif

using Vec = float __attribute__((vector_size(kLanes * sizeof(float))));

inline Vec load(const float* from) {
  Vec v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline Vec load(const bf16* from) {
  // Spelled out, since g++ widens a generic vector in halves; and masked, since it takes the
  // unmasked intrinsics for reads of uninitialized memory.
#if defined(__AVX512F__)
  const __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m512i wide = _mm512_maskz_cvtepu16_epi32(0xffff, narrow);
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, wide, 16));
#else
  const __m128i narrow = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
#endif
}

inline void store(float* to, Vec v) {
  std::memcpy(to, &v, sizeof v);
}

/// v plus itself with lanes `kDistance` apart exchanged.
template <int kDistance>
inline Vec fold(Vec v) {
  using Lanes = std::int32_t __attribute__((vector_size(kLanes * sizeof(std::int32_t))));
  Lanes partner = {};
  for (int lane = 0; lane < kLanes; ++lane) partner[lane] = lane ^ kDistance;
  return v + __builtin_shuffle(v, partner);
}

/// The sum of all lanes.
inline float sum_of(Vec v) {
  if constexpr (kLanes == 16) v = fold<8>(v);
  return fold<1>(fold<2>(fold<4>(v)))[0];
}

}  // namespace fathom::kernels
