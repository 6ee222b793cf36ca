#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/error.h"

namespace fathom {

/// Element types of tensors. Arithmetic is f32; bf16 holds frozen weights; i32 holds ids.
enum class DType : std::uint8_t { f32, bf16, i32 };

inline std::size_t size_of(DType dtype) {
  return dtype == DType::bf16 ? 2 : 4;
}
inline const char* to_string(DType dtype) {
  return dtype == DType::f32 ? "f32" : dtype == DType::bf16 ? "bf16" : "i32";
}

/// bfloat16: the upper half of an IEEE binary32.
struct bf16 {
  std::uint16_t bits = 0;
};

constexpr float to_float(bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

/// Round to nearest, ties to even; a NaN stays a (quiet) NaN.
constexpr bf16 to_bf16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

}  // namespace fathom
