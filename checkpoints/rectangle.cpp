#include "checkpoints/rectangle.h"

#include "core/error.h"

namespace fathom::checkpoints {

std::int64_t element_count(const Shape& shape) {
  std::int64_t n = 1;
  for (const auto extent : shape) n *= extent;
  return n;
}

Rectangle whole(const Shape& shape) {
  return {Shape(shape.size(), 0), shape};
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d)
    text += (d > 0 ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

std::string to_string(const Rectangle& box) {
  return to_string(box.extent) + " at " + to_string(box.offset);
}

bool lies_within(const Rectangle& box, const Shape& shape) {
  if (box.offset.size() != shape.size() || box.extent.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (box.offset[d] < 0 || box.extent[d] < 0 || box.offset[d] > shape[d] ||
        box.extent[d] > shape[d] - box.offset[d])
      return false;
  }
  return true;
}

std::optional<Rectangle> intersect(const Rectangle& a, const Rectangle& b) {
  FATHOM_CHECK(a.offset.size() == b.offset.size(), to_string(a), " and ", to_string(b));
  Rectangle common = a;
  for (std::size_t d = 0; d < a.offset.size(); ++d) {
    common.offset[d] = std::max(a.offset[d], b.offset[d]);
    const std::int64_t end = std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]);
    common.extent[d] = end - common.offset[d];
    if (common.extent[d] <= 0) return std::nullopt;
  }
  return common;
}

std::string tiling_fault(const Shape& shape, const std::vector<Rectangle>& boxes) {
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (!lies_within(boxes[i], shape))
      return str("piece ", to_string(boxes[i]), " does not lie within ", to_string(shape));
    for (std::size_t j = 0; j < i; ++j) {
      if (intersect(boxes[i], boxes[j]))
        return str("piece ", to_string(boxes[i]), " overlaps piece ", to_string(boxes[j]));
    }
    covered += element_count(boxes[i]);
  }
  const std::int64_t wanted = element_count(shape);
  if (covered != wanted) return str("its pieces cover ", covered, " of ", wanted, " elements");
  return {};
}

}  // namespace fathom::checkpoints
