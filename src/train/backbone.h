#pragma once

#include <cstdint>
#include <string>

#include "model/spec.h"
#include "model/weights.h"

namespace fathom::train {

/// What tells a backbone from others, those of the same shapes among them.
struct Backbone {
  std::string family;
  std::int64_t vocab = 0, layers = 0, hidden = 0;
  std::string tensor;  ///< the weight that the print is of
  std::string print;   ///< xxh64 of some rows of it

  bool operator==(const Backbone&) const = default;
};

/// The backbone of a model's weights. Its print reads 16 rows of one matrix in the middle of the
/// model, rounded to bf16, so that it is the same however a file stores them. Throws Error(data)
/// naming the weight where it is absent.
Backbone backbone_of(const model::ModelSpec& model, const model::WeightSource& weights);

/// "llama of 4 layers, width 64, 503 entries, model.layers.2.mlp.down_proj.weight 0123456789abcdef"
std::string to_string(const Backbone& backbone);

}  // namespace fathom::train
