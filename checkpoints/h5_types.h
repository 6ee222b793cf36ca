#pragma once

#include "checkpoints/rectangle.h"
#include "core/dtype.h"
#include "core/h5.h"

namespace fathom::checkpoints {

inline h5::Type to_h5(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return h5::Type::f32;
    case DType::bf16:
      return h5::Type::bf16;
    case DType::i32:
      return h5::Type::i32;
  }
  FATHOM_CHECK(false, "dtype ", static_cast<int>(dtype));
}

inline h5::Shape to_h5(const Shape& shape) {
  return h5::Shape(shape.begin(), shape.end());
}

}  // namespace fathom::checkpoints
