#include "checkpoints/element.h"

#include <cstring>
#include <iterator>

namespace fathom::checkpoints {
namespace {

struct ElementFacts {
  const char* name;
  std::size_t bytes;
};

constexpr ElementFacts kFacts[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                                   {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}};

/// Element by element through a register: the input need not be aligned.
template <typename In, typename Out, typename Function>
void map_elements(const std::byte* in, std::size_t n, Out* out, Function function) {
  for (std::size_t i = 0; i < n; ++i) {
    In value;
    std::memcpy(&value, in + i * sizeof(In), sizeof(In));
    out[i] = function(value);
  }
}

}  // namespace

std::size_t size_of(Element element) {
  return kFacts[static_cast<std::size_t>(element)].bytes;
}

const char* to_string(Element element) {
  return kFacts[static_cast<std::size_t>(element)].name;
}

std::optional<Element> parse_element(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kFacts); ++i)
    if (name == kFacts[i].name) return static_cast<Element>(i);
  return std::nullopt;
}

Element to_element(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return Element::f32;
    case DType::bf16:
      return Element::bf16;
    case DType::i32:
      return Element::i32;
  }
  FATHOM_CHECK(false, "dtype ", static_cast<int>(dtype));
}

bool is_floating(Element element) {
  return element <= Element::bf16;
}

void convert_to_f32(Element from, const std::byte* in, std::size_t n, float* out) {
  switch (from) {
    case Element::f32:
      std::memcpy(out, in, n * sizeof(float));
      return;
    case Element::f64:
      return map_elements<double>(in, n, out, [](double x) { return static_cast<float>(x); });
    case Element::f16:
      return map_elements<std::uint16_t>(in, n, out, half_to_float);
    case Element::bf16:
      return map_elements<bf16>(in, n, out, to_float);
    default:
      FATHOM_CHECK(false, to_string(from), " is not a floating-point kind");
  }
}

void convert_to_bf16(Element from, const std::byte* in, std::size_t n, bf16* out) {
  switch (from) {
    case Element::bf16:
      std::memcpy(out, in, n * sizeof(bf16));
      return;
    case Element::f32:
      return map_elements<float>(in, n, out, to_bf16);
    case Element::f64:
      return map_elements<double>(in, n, out,
                                  [](double x) { return to_bf16(static_cast<float>(x)); });
    case Element::f16:
      return map_elements<std::uint16_t>(in, n, out,
                                         [](std::uint16_t x) { return to_bf16(half_to_float(x)); });
    default:
      FATHOM_CHECK(false, to_string(from), " is not a floating-point kind");
  }
}

void convert_to_i64(Element from, const std::byte* in, std::size_t n, std::int64_t* out) {
  const auto widen = [](auto x) { return static_cast<std::int64_t>(x); };
  switch (from) {
    case Element::i64:
      std::memcpy(out, in, n * sizeof(std::int64_t));
      return;
    case Element::i32:
      return map_elements<std::int32_t>(in, n, out, widen);
    case Element::i16:
      return map_elements<std::int16_t>(in, n, out, widen);
    case Element::i8:
      return map_elements<std::int8_t>(in, n, out, widen);
    case Element::u8:
    case Element::boolean:
      return map_elements<std::uint8_t>(in, n, out, widen);
    default:
      FATHOM_CHECK(false, to_string(from), " is not an integer kind");
  }
}

}  // namespace fathom::checkpoints
