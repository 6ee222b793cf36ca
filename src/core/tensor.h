#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace fathom {

/// A cheap handle to an array on a device: shape, type and shared storage. Row-major and
/// contiguous, except that a matrix may be a range of columns of a wider one (row_stride() > size
/// of a row). The memory goes back to the device's arena with the last handle.
class Tensor {
 public:
  Tensor() = default;

  /// Memory of unspecified content.
  static Tensor empty(Device& device, Shape shape, DType dtype = DType::f32);
  static Tensor zeros(Device& device, Shape shape, DType dtype = DType::f32);
  static Tensor from_host(Device& device, Shape shape, std::span<const float> values);
  static Tensor from_host(Device& device, Shape shape, std::span<const std::int32_t> values);

  bool defined() const { return storage_ != nullptr; }
  explicit operator bool() const { return defined(); }

  const Shape& shape() const { return shape_; }
  std::int64_t size(int dim) const { return shape_[dim]; }
  std::int64_t elements() const { return shape_.elements(); }
  std::int64_t rows() const { return shape_.rows(); }
  std::int64_t columns() const { return shape_.last(); }
  std::int64_t row_stride() const { return row_stride_; }
  bool contiguous() const { return rows() <= 1 || row_stride_ == columns(); }
  DType dtype() const { return dtype_; }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype_); }
  Device& device() const;

  /// The same elements under another shape; contiguous tensors only.
  Tensor view(Shape shape) const;
  /// Rows [begin, begin + count) of the first dim, sharing the memory.
  Tensor slice_rows(std::int64_t begin, std::int64_t count) const;
  /// Columns [begin, begin + count) of the last dim, sharing the memory.
  Tensor slice_columns(std::int64_t begin, std::int64_t count) const;

  /// True when no other handle shares the memory, so that it may be overwritten.
  bool unique() const { return storage_.use_count() == 1; }
  /// Identity of the memory, for accounting.
  const void* storage_id() const { return storage_.get(); }
  std::size_t storage_bytes() const;

  /// Address on the device, for kernels and collectives only (within a KernelScope).
  template <typename T>
  T* ptr() const {
    return static_cast<T*>(address());
  }

 private:
  struct Storage;
  void* address() const;

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  std::int64_t row_stride_ = 0;
  std::int64_t offset_ = 0;  // elements
  DType dtype_ = DType::f32;
};

/// Values in row-major order; bf16 is widened to f32. The only way for host code to see a tensor.
std::vector<float> to_host(const Tensor& tensor);
std::vector<std::int32_t> to_host_i32(const Tensor& tensor);

/// Overwrites a contiguous tensor; f32 values are rounded to nearest even for a bf16 tensor.
void copy_from_host(const Tensor& tensor, std::span<const float> values);
void copy_from_host(const Tensor& tensor, std::span<const std::int32_t> values);

}  // namespace fathom
