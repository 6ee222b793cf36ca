#include "train/hf_weights.h"

#include "core/files.h"
#include "model/family.h"

namespace fathom::train {
namespace {

// What published files hold beside the parameters: masks and frequencies that follow from the
// config, and the embedding once more as the head.
bool repeats_the_model(const std::string& name, const model::ModelSpec& spec) {
  return (spec.tied && name == model::names_of(spec.family).head) || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias") || name.ends_with("rotary_emb.inv_freq");
}

}  // namespace

HfWeights::HfWeights(const std::filesystem::path& folder)
    : HfWeights(folder, read_model_spec(folder)) {}

HfWeights::HfWeights(const std::filesystem::path& folder, const model::ModelSpec& spec)
    : reader_(folder), optional_prefix_(model::names_of(spec.family).optional_prefix) {
  std::set<std::string> used;
  for (const std::string& name : model::parameter_names(spec)) used.insert(stored_name(name));
  std::string some;
  std::size_t unused = 0;
  for (const auto& [name, entry] : reader_.tensors()) {
    if (used.contains(name) || repeats_the_model(name, spec)) continue;
    if (++unused <= 3) some += (some.empty() ? "" : ", ") + name;
  }
  require(unused == 0, ErrorKind::data, folder.string(), ": ", unused,
          " tensors belong to nothing in the model that config.json describes (",
          model::to_string(spec.family), ", ", spec.layers, " layers): ", some,
          unused > 3 ? " and others" : "", "; weights and config.json must be of one model");
}

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
