#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace fathom::data::spans {

/// CRC-32 (the reflected polynomial 0xEDB88320 of zlib and PNG) over the little-endian bytes of
/// token ids: what Python gives as zlib.crc32(ids.astype("<i4").tobytes()).
inline std::uint32_t crc32_of(std::span<const std::int32_t> ids) {
  static constexpr auto table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0xEDB88320u : 0u);
      entries[i] = value;
    }
    return entries;
  }();
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const std::int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      const auto byte = static_cast<std::uint8_t>(static_cast<std::uint32_t>(id) >> shift);
      crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFFu];
    }
  }
  return ~crc;
}

}  // namespace fathom::data::spans
