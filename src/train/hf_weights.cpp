#include "train/hf_weights.h"

#include <cstring>

#include "core/files.h"
#include "model/family.h"

namespace fathom::train {

HfWeights::HfWeights(const std::filesystem::path& folder, model::Family family)
    : reader_(folder), optional_prefix_(model::names_of(family).optional_prefix) {}

std::string HfWeights::stored_name(const std::string& name) const {
  if (reader_.contains(name) || name.compare(0, optional_prefix_.size(), optional_prefix_) != 0)
    return name;
  const std::string shorter = name.substr(optional_prefix_.size());
  return reader_.contains(shorter) ? shorter : name;
}

void HfWeights::read(const model::Parameter& parameter, const model::Piece& piece,
                     float* out) const {
  checkpoints::Shape shape;
  for (int d = 0; d < parameter.shape.dims(); ++d) shape.push_back(parameter.shape[d]);
  const bool matrix = shape.size() == 2;
  const checkpoints::Rectangle box =
      matrix ? checkpoints::Rectangle{{piece.row, piece.column}, {piece.rows, piece.columns}}
             : checkpoints::Rectangle{{piece.row}, {piece.rows}};
  const std::string name = stored_name(parameter.name);
  reader_.at(name, shape);
  reader_.read(name, box, out);
}

model::ModelSpec read_model_spec(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  return model::parse_config(files::read_text(path), path.string());
}

}  // namespace fathom::train
