#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/parameters.h"
#include "model/spec.h"

namespace fathom::model {

/// Where weights come from: files, another model, or random numbers. Read by rectangle, so that a
/// rank touches only what it holds.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// Row-major values of a rectangle of the named parameter into out[rows * columns]. A vector is a
  /// matrix of one column. Throws Error(data) naming the parameter when it is absent or its shape
  /// differs.
  virtual void read(const Parameter& parameter, const Piece& piece, float* out) const = 0;
};

/// Fills a rank's parameters. Throws Error(numeric) naming the parameter for NaN or infinity.
void load_parameters(ParameterSet& parameters, const WeightSource& source);

/// Values of the parameter's own normal or uniform distribution (or constant), a function of (seed, name,
/// element) alone: the same model on any grid.
class RandomWeights : public WeightSource {
 public:
  explicit RandomWeights(std::uint64_t seed) : seed_(seed) {}
  void read(const Parameter& parameter, const Piece& piece, float* out) const override;

 private:
  std::uint64_t seed_;
};

/// Another source under changed layer numbers: layer i of the student is layers[i] of the source.
class ChosenLayers : public WeightSource {
 public:
  ChosenLayers(const WeightSource& source, Family family, std::vector<std::int64_t> layers)
      : source_(source), family_(family), layers_(std::move(layers)) {}
  void read(const Parameter& parameter, const Piece& piece, float* out) const override;

 private:
  const WeightSource& source_;
  Family family_;
  std::vector<std::int64_t> layers_;
};

/// Copies of the values, gradients (or any tensor of the parameter's local shape) as contiguous
/// rectangles on the host, one for each piece.
std::vector<std::vector<float>> pieces_to_host(const Parameter& parameter, const Tensor& local);

/// The inverse for one piece.
void piece_from_host(const Parameter& parameter, const Tensor& local, const Piece& piece,
                     std::span<const float> values);

}  // namespace fathom::model
