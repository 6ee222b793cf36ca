#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/dtype.h"

namespace fathom::checkpoints {

/// Element types of the files that other programs write. Fathom computes on f32, bf16 and i32.
enum class Element : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

std::size_t size_of(Element element);
/// The name that safetensors uses: "F32", "BF16", ...
const char* to_string(Element element);
std::optional<Element> parse_element(std::string_view name);
Element to_element(DType dtype);

/// IEEE binary16 to binary32, exact.
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t rest = half & 0x7fffu;
  // Subnormals and zero: rest counts units of 2^-24, and the product is exact.
  if (rest < 0x0400u)
    return std::bit_cast<float>(sign |
                                std::bit_cast<std::uint32_t>(static_cast<float>(rest) * 0x1p-24f));
  const std::uint32_t bias = rest >= 0x7c00u ? 0x70000000u : 0x38000000u;
  return std::bit_cast<float>(sign | ((rest << 13) + bias));
}

/// Converts n elements of unaligned little-endian memory. Floating-point kinds only (f64 is
/// rounded).
void convert_to_f32(Element from, const std::byte* in, std::size_t n, float* out);
/// The same to bf16, rounding to nearest even; bf16 passes through bit for bit.
void convert_to_bf16(Element from, const std::byte* in, std::size_t n, bf16* out);
/// Integer kinds and boolean only.
void convert_to_i64(Element from, const std::byte* in, std::size_t n, std::int64_t* out);

bool is_floating(Element element);

}  // namespace fathom::checkpoints
