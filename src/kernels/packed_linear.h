#pragma once

#include <cstdint>
#include <vector>

namespace fathom::kernels {

/// A frozen f32 linear layer y = x W^T + b on the CPU, its weights laid out once for the order in
/// which they are read. For small networks that run over many rows beside the training threads: it
/// runs on the calling thread alone, and every row of y has the same bits whatever the other rows
/// are and however many, so that a result never depends on how its inputs were batched. Immutable:
/// any number of threads may use it at once.
class PackedLinear {
 public:
  PackedLinear() = default;
  /// `weight` is [outputs, inputs], row-major; `bias` has `outputs` values or is null (zero).
  PackedLinear(const float* weight, const float* bias, std::int64_t outputs, std::int64_t inputs);

  std::int64_t outputs() const { return outputs_; }
  std::int64_t inputs() const { return inputs_; }

  /// Row r of x begins at x + r * x_stride, and rows may overlap: with x_stride below inputs() this
  /// is a convolution over a sequence of vectors. Row r of y is y + r * y_stride.
  void apply(const float* x, std::int64_t x_stride, std::int64_t rows, float* y,
             std::int64_t y_stride) const;

 private:
  std::int64_t outputs_ = 0;
  std::int64_t inputs_ = 0;
  std::vector<float> weights_;  // by panel of columns, then by input
  std::vector<float> bias_;     // padded to whole vectors
};

/// One Maxout layer with its layer norm: out = residual + gain * norm(max over pieces p of
/// x W_p^T + b_p) + shift, where norm subtracts the mean and divides by sqrt(variance + 1e-8).
class MaxoutLayer {
 public:
  /// `linear` gives the outputs of piece 0, then those of piece 1, and so on.
  MaxoutLayer(PackedLinear linear, std::vector<float> gain, std::vector<float> shift);

  std::int64_t width() const { return static_cast<std::int64_t>(gain_.size()); }

  /// Rows of x as in PackedLinear::apply; `residual` (or null) and `out` are [rows, width()] and
  /// out overlaps neither.
  void apply(const float* x, std::int64_t x_stride, std::int64_t rows, const float* residual,
             float* out) const;

 private:
  void finish(const float* pieces, const float* residual, float* out) const;

  PackedLinear linear_;
  std::vector<float> gain_;
  std::vector<float> shift_;
};

}  // namespace fathom::kernels
