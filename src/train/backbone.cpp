#include "train/backbone.h"

#include <algorithm>
#include <vector>

#include "core/dtype.h"
#include "data/fingerprint.h"
#include "model/family.h"

namespace fathom::train {
namespace {

constexpr std::int64_t kRows = 16;

// The last matrix of the middle layer: every family has it, no norm or embedding that models start
// with alike.
model::Parameter printed(const model::ModelSpec& model) {
  const model::FamilyNames& names = model::names_of(model.family);
  const bool out_in = names.layout == autograd::WeightLayout::out_in;
  model::Parameter matrix;
  matrix.name = model::layer_name(names, model.layers / 2, str(names.mlp_out, ".weight"));
  matrix.shape = out_in ? Shape{model.hidden, model.ffn} : Shape{model.ffn, model.hidden};
  return matrix;
}

}  // namespace

Backbone backbone_of(const model::ModelSpec& model, const model::WeightSource& weights) {
  const model::Parameter matrix = printed(model);
  const std::int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  std::vector<float> values(static_cast<std::size_t>(columns));
  std::vector<bf16> rounded(values.size());
  data::Fingerprint print;
  const std::int64_t count = std::min(rows, kRows);
  for (std::int64_t i = 0; i < count; ++i) {
    weights.read(matrix, {.row = i * rows / count, .rows = 1, .columns = columns}, values.data());
    for (std::size_t c = 0; c < values.size(); ++c) rounded[c] = to_bf16(values[c]);
    print.update(std::span<const bf16>(rounded));
  }
  return {.family = model::to_string(model.family),
          .vocab = model.vocab,
          .layers = model.layers,
          .hidden = model.hidden,
          .tensor = matrix.name,
          .print = print.hex()};
}

std::string to_string(const Backbone& backbone) {
  return str(backbone.family, " of ", backbone.layers, " layers, width ", backbone.hidden, ", ",
             backbone.vocab, " entries, ", backbone.tensor, " ", backbone.print);
}

}  // namespace fathom::train
