#include <cstring>

#include "checkpoints/element.h"
#include "core/error.h"
#include "data_tools/gguf/gguf_file.h"

namespace fathom::data_tools {
namespace {

using checkpoints::Element;

constexpr int kBlock = 32;

float read_half(const std::byte* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return checkpoints::half_to_float(bits);
}

/// 16 bytes hold 32 values of four bits: the low halves are the first 16, the high halves the rest.
void unpack_nibbles(const std::byte* in, float scale, float shift, float* out) {
  for (int j = 0; j < kBlock / 2; ++j) {
    const auto byte = std::to_integer<unsigned>(in[j]);
    out[j] = scale * static_cast<float>(byte & 15u) + shift;
    out[j + kBlock / 2] = scale * static_cast<float>(byte >> 4) + shift;
  }
}

void unpack_block(GgmlType type, const std::byte* in, float* out) {
  const float scale = read_half(in);
  switch (type) {
    case GgmlType::q8_0:
      for (int j = 0; j < kBlock; ++j)
        out[j] = scale * static_cast<float>(static_cast<std::int8_t>(in[2 + j]));
      return;
    case GgmlType::q4_0:
      return unpack_nibbles(in + 2, scale, -8.0f * scale, out);
    case GgmlType::q4_1:
      return unpack_nibbles(in + 4, scale, read_half(in + 2), out);
    default:
      FATHOM_CHECK(false, to_string(type), " has no blocks");
  }
}

}  // namespace

const char* to_string(GgmlType type) {
  switch (type) {
    case GgmlType::f32:
      return "F32";
    case GgmlType::f16:
      return "F16";
    case GgmlType::bf16:
      return "BF16";
    case GgmlType::q8_0:
      return "Q8_0";
    case GgmlType::q4_0:
      return "Q4_0";
    case GgmlType::q4_1:
      return "Q4_1";
  }
  FATHOM_CHECK(false, "ggml type ", static_cast<int>(type));
}

std::optional<GgmlBlock> block_of(std::uint32_t ggml_type) {
  switch (static_cast<GgmlType>(ggml_type)) {
    case GgmlType::f32:
      return GgmlBlock{4, 1};
    case GgmlType::f16:
    case GgmlType::bf16:
      return GgmlBlock{2, 1};
    case GgmlType::q4_0:
      return GgmlBlock{18, kBlock};
    case GgmlType::q4_1:
      return GgmlBlock{20, kBlock};
    case GgmlType::q8_0:
      return GgmlBlock{34, kBlock};
  }
  return std::nullopt;
}

std::vector<float> dequantise(const GgufTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(checkpoints::element_count(tensor.shape)));
  const std::byte* in = tensor.bytes.data();
  switch (tensor.type) {
    case GgmlType::f32:
      checkpoints::convert_to_f32(Element::f32, in, values.size(), values.data());
      return values;
    case GgmlType::f16:
      checkpoints::convert_to_f32(Element::f16, in, values.size(), values.data());
      return values;
    case GgmlType::bf16:
      checkpoints::convert_to_f32(Element::bf16, in, values.size(), values.data());
      return values;
    default:
      break;
  }
  const auto block = *block_of(static_cast<std::uint32_t>(tensor.type));
  for (std::size_t i = 0; i < values.size(); i += kBlock, in += block.bytes)
    unpack_block(tensor.type, in, values.data() + i);
  return values;
}

}  // namespace fathom::data_tools
