#include "model/weights.h"

#include <cmath>
#include <numbers>

#include "core/host_copy.h"
#include "core/philox.h"
#include "model/family.h"
#include "model/piece_copy.h"

namespace fathom::model {
namespace {

// The local rectangle of a piece as a matrix; vectors become one column.
Tensor local_matrix(const Tensor& local, const Piece& piece) {
  if (local.shape().dims() == 1)
    return local.slice_rows(piece.local_row, piece.rows).view({piece.rows, 1});
  return local.slice_rows(piece.local_row, piece.rows)
      .slice_columns(piece.local_column, piece.columns);
}

// FNV-1a over the name: which stream of random numbers a parameter uses.
std::uint64_t hash_name(const std::string& name) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

}  // namespace

void load_parameters(ParameterSet& parameters, const WeightSource& source) {
  for (const Parameter& parameter : parameters.parameters()) {
    for (const Piece& piece : parameter.pieces) {
      std::vector<float> values(static_cast<std::size_t>(piece.rows * piece.columns));
      source.read(parameter, piece, values.data());
      for (std::size_t i = 0; i < values.size(); ++i)
        require(std::isfinite(values[i]), ErrorKind::numeric, "parameter ", parameter.name,
                ": element [", piece.row + static_cast<std::int64_t>(i) / piece.columns, ", ",
                piece.column + static_cast<std::int64_t>(i) % piece.columns, "] is ", values[i]);
      piece_from_host(parameter, parameter.value, piece, values);
    }
  }
}

void RandomWeights::read(const Parameter& parameter, const Piece& piece, float* out) const {
  const std::int64_t width = parameter.shape.dims() == 2 ? parameter.shape[1] : 1;
  const std::uint64_t stream = hash_name(parameter.name);
  const auto low = static_cast<std::uint32_t>(seed_),
             high = static_cast<std::uint32_t>(seed_ >> 32);
  for (std::int64_t r = 0; r < piece.rows; ++r) {
    for (std::int64_t c = 0; c < piece.columns; ++c) {
      float& value = out[r * piece.columns + c];
      if (parameter.init_std == 0 && parameter.init_bound == 0) {
        value = static_cast<float>(parameter.init_value);
        continue;
      }
      const auto element = static_cast<std::uint64_t>((piece.row + r) * width + piece.column + c);
      const Philox words = philox(
          low, high, static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(element >> 32),
          static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32));
      if (parameter.init_bound > 0) {
        const double place = 2.0 * uniform01(words.v[0]) - 1.0;
        value = static_cast<float>(parameter.init_value + parameter.init_bound * place);
        continue;
      }
      // Box-Muller; the first uniform is moved off zero.
      const double u = (static_cast<double>(words.v[0]) + 0.5) / 4294967296.0;
      const double v = static_cast<double>(words.v[1]) / 4294967296.0;
      const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
      value = static_cast<float>(parameter.init_value + parameter.init_std * normal);
    }
  }
}

void ChosenLayers::read(const Parameter& parameter, const Piece& piece, float* out) const {
  const std::string prefix = names_of(family_).layer;
  if (parameter.name.compare(0, prefix.size(), prefix) != 0) {
    source_.read(parameter, piece, out);
    return;
  }
  const std::size_t dot = parameter.name.find('.', prefix.size());
  const std::string number = parameter.name.substr(prefix.size(), dot - prefix.size());
  Parameter renamed = parameter;
  renamed.name =
      layer_name(names_of(family_), layers_.at(std::stoul(number)), parameter.name.substr(dot + 1));
  source_.read(renamed, piece, out);
}

std::vector<std::vector<float>> pieces_to_host(const Parameter& parameter, const Tensor& local) {
  std::vector<std::vector<float>> values;
  for (const Piece& piece : parameter.pieces) values.push_back(to_host(local_matrix(local, piece)));
  return values;
}

void piece_to_host(const Parameter& parameter, const Tensor& local, const Piece& piece,
                   std::span<std::byte> bytes) {
  FATHOM_CHECK(
      bytes.size() == static_cast<std::size_t>(piece.rows * piece.columns) * size_of(local.dtype()),
      "piece of ", parameter.name);
  copy_to_host(local_matrix(local, piece), bytes);
}

void piece_from_host(const Parameter& parameter, const Tensor& local, const Piece& piece,
                     std::span<const float> values) {
  FATHOM_CHECK(static_cast<std::int64_t>(values.size()) == piece.rows * piece.columns, "piece of ",
               parameter.name);
  copy_from_host(local_matrix(local, piece), values);
}

}  // namespace fathom::model
