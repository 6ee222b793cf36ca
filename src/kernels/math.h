#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/philox.h"

// exp, log, tanh and erf without branches or calls, so that loops over them vectorise. The GPU uses
// its own. Errors are tested over the whole range in tests/kernels/math_test.cpp.

namespace fathom::kernels {

FATHOM_HOST_DEVICE inline float bits_to_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

FATHOM_HOST_DEVICE inline std::uint32_t float_to_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// e^x within 2 ulp; 0 below -87, infinity above 88.73, NaN stays NaN.
FATHOM_HOST_DEVICE inline float exp_f(float x) {
#if defined(__CUDA_ARCH__)
  return expf(x);
#else
  // x = n ln 2 + r, |r| <= ln(2)/2; ln 2 in two parts so that r is exact.
  const float above = x > 89.0f ? 89.0f : x;  // NaN passes both comparisons
  const float clamped = above < -87.0f ? -87.0f : above;
  // Adding 1.5 * 2^23 rounds to nearest and leaves n in the low bits of the mantissa.
  const float shifted = clamped * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  float r = clamped - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  // 2 e^r, so that the factor 2^(n - 1) stays finite up to n = 128; it is 0 for n <= -126.
  float p = 2 * 1.9875691500e-4f;
  p = p * r + 2 * 1.3981999507e-3f;
  p = p * r + 2 * 8.3334519073e-3f;
  p = p * r + 2 * 4.1665795894e-2f;
  p = p * r + 2 * 1.6666665459e-1f;
  p = p * r + 2 * 5.0000001201e-1f;
  p = p * r * r + (2 * r + 2);
  return p * bits_to_float((float_to_bits(shifted) + 126) << 23);
#endif
}

/// Natural logarithm of a positive, normal, finite x within 3 ulp; exactly 0 at 1.
FATHOM_HOST_DEVICE inline float log_f(float x) {
#if defined(__CUDA_ARCH__)
  return logf(x);
#else
  // x = 2^n m with m in [1/sqrt(2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1), whose
  // series has fallen below 2e-9 of it after s^9.
  constexpr std::uint32_t kRootHalf = 0x3f3504f3;
  const std::uint32_t shifted = float_to_bits(x) - kRootHalf;
  const float n = static_cast<float>(static_cast<std::int32_t>(shifted) >> 23);
  const float m = bits_to_float((shifted & 0x007fffff) + kRootHalf);
  const float s = (m - 1.0f) / (m + 1.0f);
  const float s2 = s * s;
  float p = 2.0f / 9;
  p = p * s2 + 2.0f / 7;
  p = p * s2 + 2.0f / 5;
  p = p * s2 + 2.0f / 3;
  // ln 2 in two parts, the first with few bits, so that n times it is exact.
  return n * 0.693359375f + (s * s2 * p + (n * -2.12194440e-4f + 2.0f * s));
#endif
}

/// tanh within 4 ulp.
FATHOM_HOST_DEVICE inline float tanh_f(float x) {
#if defined(__CUDA_ARCH__)
  return tanhf(x);
#else
  // Near zero the odd series avoids the cancellation of (e^2x - 1) / (e^2x + 1).
  const float a = x < 0 ? -x : x;
  const float e = exp_f(-2.0f * a);
  const float large = (1.0f - e) / (1.0f + e);
  const float s = x * x;
  float p = -5.70498872745e-3f;
  p = p * s + 2.06390887954e-2f;
  p = p * s + -5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s + -3.33332819422e-1f;
  const float small = x + x * s * p;
  const float signed_large = x < 0 ? -large : large;
  return a < 0.625f ? small : signed_large;
#endif
}

/// 1 / (1 + e^-x) within 4 ulp; 0 below -88.73.
FATHOM_HOST_DEVICE inline float sigmoid_f(float x) {
  return 1.0f / (1.0f + exp_f(-x));
}

/// Error function within 3 ulp.
FATHOM_HOST_DEVICE inline float erf_f(float x) {
#if defined(__CUDA_ARCH__)
  return erff(x);
#else
  // |x| < 0.95: x times a polynomial in x^2. Beyond: 1 - e^p with p a polynomial for log(erfc(x));
  // from 4 on the result rounds to 1. Both are minimax fits, to 6e-10 and 1.5e-9.
  const float a = x < 0 ? -x : x;
  const float c = a > 4.0f ? 4.0f : a;
  float p = 1.936076980e-4f;
  p = p * c + -3.020263832e-3f;
  p = p * c + 2.213497689e-2f;
  p = p * c + -1.037398557e-1f;
  p = p * c + -6.374019550e-1f;
  p = p * c + -1.127544366e+0f;
  p = p * c + -2.276472075e-4f;
  const float far = 1.0f - exp_f(p);
  const float s = x * x;
  float q = 8.185247536e-5f;
  q = q * s + -8.097748957e-4f;
  q = q * s + 5.196957270e-3f;
  q = q * s + -2.685770793e-2f;
  q = q * s + 1.128366407e-1f;
  q = q * s + -3.761263162e-1f;
  q = q * s + 1.128379166e+0f;
  const float signed_far = x < 0 ? -far : far;
  return a < 0.95f ? x * q : signed_far;
#endif
}

}  // namespace fathom::kernels
