#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fathom::train {

/// CRC-32C (Castagnoli), rotated and offset as TFRecord files store it, so that the checksum of
/// data that holds checksums stays sound.
std::uint32_t masked_crc32c(std::string_view data);

/// One TFRecord: length (u64), masked checksum of the length (u32), data, masked checksum of the
/// data (u32), all little-endian.
std::string frame_record(std::string_view data);

}  // namespace fathom::train
