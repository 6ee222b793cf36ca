#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/error.h"

namespace fathom {

/// Sizes of up to four dims, slowest first. A scalar has no dims and one element.
class Shape {
 public:
  static constexpr int kMaxDims = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) {
    FATHOM_CHECK(sizes.size() <= kMaxDims, "a shape has at most ", kMaxDims, " dims");
    for (std::int64_t size : sizes) {
      FATHOM_CHECK(size >= 0, "negative size ", size);
      sizes_[static_cast<std::size_t>(dims_++)] = size;
    }
  }

  int dims() const { return dims_; }
  std::int64_t operator[](int dim) const { return sizes_[static_cast<std::size_t>(dim)]; }
  std::int64_t last() const { return dims_ == 0 ? 1 : sizes_[static_cast<std::size_t>(dims_ - 1)]; }
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int d = 0; d < dims_; ++d) n *= (*this)[d];
    return n;
  }
  /// Product of all dims but the last: the number of rows that row kernels see.
  std::int64_t rows() const {
    std::int64_t n = 1;
    for (int d = 0; d + 1 < dims_; ++d) n *= (*this)[d];
    return n;
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxDims> sizes_{};
  int dims_ = 0;
};

inline std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int d = 0; d < shape.dims(); ++d) text += (d > 0 ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

}  // namespace fathom
