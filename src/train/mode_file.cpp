#include "train/mode_file.h"

#include <map>
#include <nlohmann/json.hpp>

#include "checkpoints/safetensors.h"
#include "core/files.h"
#include "core/parameter_names.h"
#include "model/family.h"

namespace fathom::train {
namespace {

constexpr const char* kSpecName = "mode.json";
constexpr const char* kWeightsName = "mode.safetensors";

// A tensor of the file.
struct Stored {
  std::string name;  ///< here
  checkpoints::Shape shape;
};

// By names in the file.
std::map<std::string, Stored> tensors_of(const methods::mode::ModeSpec& spec,
                                         const model::ModelSpec& model) {
  std::map<std::string, Stored> names;
  const std::string own = str(kMethodPrefix, "mode.");
  const bool biased = model.norm == kernels::NormKind::layer;
  const auto norm = [&](std::int64_t layer, const std::string& source) {
    const std::string name = str("norm.", layer);
    names[name + ".weight"] = {source + ".weight", {model.hidden}};
    if (biased) names[name + ".bias"] = {source + ".bias", {model.hidden}};
  };
  if (spec.norms == methods::mode::Norms::own)
    for (std::int64_t layer = model.layers - spec.k + 1; layer < model.layers; ++layer)
      norm(layer, str(own, "norm.", layer));
  norm(model.layers, model::names_of(model.family).final_norm);
  if (spec.routed()) {
    names["router.weight"] = {own + "router.weight", {spec.k, model.hidden}};
    names["router.bias"] = {own + "router.bias", {spec.k}};
  }
  return names;
}

// The text of mode.json: how the layers vote, and on what.
std::string file_text(const std::string& mode, const Backbone& backbone) {
  auto json = nlohmann::ordered_json::parse(mode);
  json["backbone"] = {{"family", backbone.family}, {"vocab", backbone.vocab},
                      {"layers", backbone.layers}, {"hidden", backbone.hidden},
                      {"tensor", backbone.tensor}, {"print", backbone.print}};
  return json.dump(2) + "\n";
}

std::optional<Backbone> read_backbone(const std::filesystem::path& path) {
  try {
    const auto json = nlohmann::json::parse(files::read_text(path));
    if (!json.contains("backbone")) return std::nullopt;
    const auto& backbone = json["backbone"];
    return Backbone{.family = backbone.at("family"),
                    .vocab = backbone.at("vocab"),
                    .layers = backbone.at("layers"),
                    .hidden = backbone.at("hidden"),
                    .tensor = backbone.at("tensor"),
                    .print = backbone.at("print")};
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::io, path.string(), ": its backbone cannot be read: ", error.what());
  }
}

}  // namespace

void write_mode_file(checkpoints::CheckpointReader& reader, const std::string& mode,
                     const model::ModelSpec& model, const model::WeightSource& backbone,
                     const std::filesystem::path& folder) {
  const auto spec = methods::mode::parse_mode(mode, reader.folder().string());
  const auto tensors = tensors_of(spec, model);
  std::filesystem::create_directories(folder);
  std::vector<checkpoints::SafetensorsPlan> plan;
  for (const auto& [name, tensor] : tensors) {
    reader.at(tensor.name, tensor.shape);
    plan.push_back({name, checkpoints::Element::f32, tensor.shape});
  }
  checkpoints::write_safetensors(
      folder / kWeightsName, std::move(plan),
      [&](const checkpoints::SafetensorsPlan& entry, checkpoints::SafetensorsSink& sink) {
        std::vector<float> values(
            static_cast<std::size_t>(checkpoints::element_count(entry.shape)));
        reader.read(tensors.at(entry.name).name, checkpoints::whole(entry.shape), values.data());
        sink.put(values);
      });
  files::write_text_atomically(folder / kSpecName, file_text(mode, backbone_of(model, backbone)));
}

std::optional<methods::mode::ModeSpec> read_mode_spec(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kSpecName;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return methods::mode::parse_mode(files::read_text(path), path.string());
}

std::filesystem::path voting_folder(const std::filesystem::path& model,
                                    const std::filesystem::path& adapter) {
  for (const auto& folder : {adapter, model})
    if (!folder.empty() && std::filesystem::exists(folder / kSpecName)) return folder;
  return {};
}

ModeFolder::ModeFolder(const std::filesystem::path& folder, const methods::mode::ModeSpec& spec,
                       const model::ModelSpec& model)
    : folder_(folder),
      reader_(folder / kWeightsName),
      backbone_(read_backbone(folder / kSpecName)) {
  std::string wrong;
  const auto tensors = tensors_of(spec, model);
  for (const auto& [name, tensor] : tensors) {
    stored_[tensor.name] = name;
    if (!reader_.contains(name))
      wrong += str("\n  lacks ", name, " ", checkpoints::to_string(tensor.shape));
    else if (reader_.at(name).shape != tensor.shape)
      wrong += str("\n  ", name, " is ", checkpoints::to_string(reader_.at(name).shape), ", not ",
                   checkpoints::to_string(tensor.shape));
  }
  for (const auto& [name, entry] : reader_.tensors())
    if (tensors.count(name) == 0) wrong += "\n  has also " + name;
  require(wrong.empty(), ErrorKind::data, (folder / kWeightsName).string(),
          ": its late layers belong to another model than this one of ", model.layers,
          " layers and width ", model.hidden, ":", wrong);
}

void ModeFolder::check_backbone(const model::ModelSpec& model,
                                const model::WeightSource& weights) const {
  if (!backbone_) return;
  const Backbone here = backbone_of(model, weights);
  require(here == *backbone_, ErrorKind::data, (folder_ / kSpecName).string(),
          ": its late layers were trained on another model:\n  ", to_string(*backbone_),
          "\n  and this one is\n  ", to_string(here));
}

void ModeFolder::read(const model::Parameter& parameter, const model::Piece& piece,
                      float* out) const {
  const bool matrix = parameter.shape.dims() == 2;
  reader_.read(stored_.at(parameter.name),
               matrix
                   ? checkpoints::Rectangle{{piece.row, piece.column}, {piece.rows, piece.columns}}
                   : checkpoints::Rectangle{{piece.row}, {piece.rows}},
               out);
}

}  // namespace fathom::train
