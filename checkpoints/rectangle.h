#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fathom::checkpoints {

using Shape = std::vector<std::int64_t>;

/// A box of elements of a tensor: `extent[d]` elements from `offset[d]` on in each dim. A scalar
/// tensor has no dims and its only box is empty of them.
struct Rectangle {
  Shape offset;
  Shape extent;

  bool operator==(const Rectangle&) const = default;
};

/// Number of elements; 1 without dims.
std::int64_t element_count(const Shape& shape);
inline std::int64_t element_count(const Rectangle& box) {
  return element_count(box.extent);
}

/// The box that is the whole tensor.
Rectangle whole(const Shape& shape);

/// "[3, 4]" and "[3, 4] at [0, 8]".
std::string to_string(const Shape& shape);
std::string to_string(const Rectangle& box);

/// True if the box has the shape's number of dims and lies inside it.
bool lies_within(const Rectangle& box, const Shape& shape);

/// The common part of two boxes of one tensor, or nothing if they share no element.
std::optional<Rectangle> intersect(const Rectangle& a, const Rectangle& b);

/// Empty if the boxes cover every element of the shape exactly once; else what is wrong, as a
/// phrase
/// ("covers 10 of 12 elements", "[2, 2] at [0, 0] overlaps ...").
std::string tiling_fault(const Shape& shape, const std::vector<Rectangle>& boxes);

/// Splits `part`, a box that lies within `box`, into runs that are contiguous in a dense row-major
/// copy of `box`. Calls visit(first element in the box, first element in the part, length) in the
/// part's order. Adjacent rows that join are one run.
template <typename Visit>
void for_each_run(const Rectangle& box, const Rectangle& part, Visit&& visit) {
  if (element_count(part) == 0) return;
  // The trailing dims that the part takes whole, and the one before them, form one run.
  const int dims = static_cast<int>(box.extent.size());
  int inner = dims - 1;
  while (inner > 0 && part.extent[inner] == box.extent[inner]) --inner;
  std::int64_t length = 1;
  for (int d = std::max(inner, 0); d < dims; ++d) length *= part.extent[d];

  Shape stride(box.extent.size(), 1);
  for (int d = dims - 2; d >= 0; --d) stride[d] = stride[d + 1] * box.extent[d + 1];
  std::int64_t in_box = 0;
  for (int d = 0; d < dims; ++d) in_box += (part.offset[d] - box.offset[d]) * stride[d];

  Shape index(box.extent.size(), 0);
  std::int64_t in_part = 0;
  for (;;) {
    visit(in_box, in_part, length);
    in_part += length;
    int d = inner - 1;
    for (; d >= 0; --d) {
      in_box += stride[d];
      if (++index[d] < part.extent[d]) break;
      in_box -= stride[d] * part.extent[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace fathom::checkpoints
