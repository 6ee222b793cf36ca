#include "core/tensor.h"

#include "core/host_copy.h"

namespace fathom {

struct Tensor::Storage {
  Storage(Device& owner, std::size_t size)
      : device(owner), memory(owner.allocate(size)), bytes(size) {}
  ~Storage() { device.free(memory); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device& device;
  void* memory;
  std::size_t bytes;
};

Tensor Tensor::empty(Device& device, Shape shape, DType dtype) {
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  tensor.row_stride_ = shape.last();
  tensor.storage_ = std::make_shared<Storage>(
      device, static_cast<std::size_t>(shape.elements()) * size_of(dtype));
  return tensor;
}

Tensor Tensor::zeros(Device& device, Shape shape, DType dtype) {
  Tensor tensor = empty(device, shape, dtype);
  device.fill_zero(tensor.storage_->memory, tensor.bytes());
  return tensor;
}

Tensor Tensor::from_host(Device& device, Shape shape, std::span<const float> values) {
  Tensor tensor = empty(device, shape, DType::f32);
  copy_from_host(tensor, values);
  return tensor;
}

Tensor Tensor::from_host(Device& device, Shape shape, std::span<const std::int32_t> values) {
  Tensor tensor = empty(device, shape, DType::i32);
  copy_from_host(tensor, values);
  return tensor;
}

Device& Tensor::device() const {
  FATHOM_CHECK(defined(), "an undefined tensor has no device");
  return storage_->device;
}

Tensor Tensor::view(Shape shape) const {
  FATHOM_CHECK(contiguous() && shape.elements() == elements(), "view of ", to_string(shape_),
               " as ", to_string(shape));
  Tensor out = *this;
  out.shape_ = shape;
  out.row_stride_ = shape.last();
  return out;
}

Tensor Tensor::slice_rows(std::int64_t begin, std::int64_t count) const {
  FATHOM_CHECK(shape_.dims() >= 1 && begin >= 0 && count >= 0 && begin + count <= shape_[0],
               "rows ", begin, "+", count, " of ", to_string(shape_));
  Tensor out = *this;
  const std::int64_t rows_each =
      shape_.dims() == 1 ? 1 : rows() / std::max<std::int64_t>(1, shape_[0]);
  out.offset_ += begin * (shape_.dims() == 1 ? 1 : rows_each * row_stride_);
  switch (shape_.dims()) {
    case 1:
      out.shape_ = {count};
      break;
    case 2:
      out.shape_ = {count, shape_[1]};
      break;
    case 3:
      out.shape_ = {count, shape_[1], shape_[2]};
      break;
    default:
      out.shape_ = {count, shape_[1], shape_[2], shape_[3]};
      break;
  }
  if (shape_.dims() == 1) out.row_stride_ = count;
  return out;
}

Tensor Tensor::slice_columns(std::int64_t begin, std::int64_t count) const {
  FATHOM_CHECK(begin >= 0 && count >= 0 && begin + count <= columns(), "columns ", begin, "+",
               count, " of ", to_string(shape_));
  if (shape_.dims() == 1) return slice_rows(begin, count);
  FATHOM_CHECK(shape_.dims() == 2, "columns of a matrix only, not of ", to_string(shape_));
  Tensor out = *this;
  out.offset_ += begin;
  out.shape_ = {shape_[0], count};
  return out;
}

std::size_t Tensor::storage_bytes() const {
  return defined() ? storage_->bytes : 0;
}

void* Tensor::address() const {
  FATHOM_CHECK(defined(), "an undefined tensor has no memory");
  return static_cast<std::byte*>(storage_->memory) +
         static_cast<std::size_t>(offset_) * size_of(dtype_);
}

namespace {

// Calls copy(host bytes, device address, bytes) for each contiguous run of the tensor.
template <typename Copy>
void for_each_run(const Tensor& tensor, std::byte* host, Copy copy) {
  const std::size_t width = size_of(tensor.dtype());
  auto* device_memory = tensor.ptr<std::byte>();
  if (tensor.contiguous()) {
    copy(host, device_memory, tensor.bytes());
    return;
  }
  const std::size_t row = static_cast<std::size_t>(tensor.columns()) * width;
  const std::size_t stride = static_cast<std::size_t>(tensor.row_stride()) * width;
  for (std::int64_t r = 0; r < tensor.rows(); ++r)
    copy(host + static_cast<std::size_t>(r) * row,
         device_memory + static_cast<std::size_t>(r) * stride, row);
}

void read(const Tensor& tensor, void* host) {
  for_each_run(tensor, static_cast<std::byte*>(host), [&](void* to, void* from, std::size_t bytes) {
    tensor.device().copy_to_host(to, from, bytes);
  });
}

void write(const Tensor& tensor, const void* host) {
  auto* bytes_of_host = static_cast<std::byte*>(const_cast<void*>(host));
  for_each_run(tensor, bytes_of_host, [&](void* from, void* to, std::size_t bytes) {
    tensor.device().copy_from_host(to, from, bytes);
  });
}

}  // namespace

std::vector<float> to_host(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  copy_to_host(tensor, values);
  return values;
}

void copy_to_host(const Tensor& tensor, std::span<float> values) {
  FATHOM_CHECK(static_cast<std::int64_t>(values.size()) == tensor.elements(), values.size(),
               " values of ", to_string(tensor.shape()));
  if (tensor.dtype() == DType::bf16) {
    std::vector<bf16> narrow(values.size());
    read(tensor, narrow.data());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_float(narrow[i]);
    return;
  }
  FATHOM_CHECK(tensor.dtype() == DType::f32, "f32 values of ", to_string(tensor.dtype()));
  read(tensor, values.data());
}

void copy_to_host(const Tensor& tensor, std::span<std::byte> bytes) {
  FATHOM_CHECK(bytes.size() == tensor.bytes(), bytes.size(), " bytes of ",
               to_string(tensor.shape()));
  read(tensor, bytes.data());
}

std::vector<std::int32_t> to_host_i32(const Tensor& tensor) {
  FATHOM_CHECK(tensor.dtype() == DType::i32, "to_host_i32 of ", to_string(tensor.dtype()));
  std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.elements()));
  read(tensor, values.data());
  return values;
}

void copy_from_host(const Tensor& tensor, std::span<const float> values) {
  FATHOM_CHECK(static_cast<std::int64_t>(values.size()) == tensor.elements(), values.size(),
               " values for ", to_string(tensor.shape()));
  if (tensor.dtype() == DType::bf16) {
    std::vector<bf16> narrow(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) narrow[i] = to_bf16(values[i]);
    write(tensor, narrow.data());
    return;
  }
  FATHOM_CHECK(tensor.dtype() == DType::f32, "f32 values for ", to_string(tensor.dtype()));
  write(tensor, values.data());
}

void copy_from_host(const Tensor& tensor, std::span<const std::int32_t> values) {
  FATHOM_CHECK(
      static_cast<std::int64_t>(values.size()) == tensor.elements() && tensor.dtype() == DType::i32,
      values.size(), " ids for ", to_string(tensor.shape()));
  write(tensor, values.data());
}

}  // namespace fathom
