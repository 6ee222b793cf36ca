#include "train/adapter_folder.h"

#include <algorithm>
#include <set>

#include "core/files.h"
#include "methods/adapters/adapter_config.h"
#include "methods/adapters/merge.h"
#include "methods/adapters/tensors.h"
#include "model/family.h"

namespace fathom::train {
namespace {

namespace adapters = methods::adapters;

constexpr const char* kConfigName = "adapter_config.json";
constexpr const char* kWeightsName = "adapter_model.safetensors";

checkpoints::Shape shape_of(const Shape& shape) {
  checkpoints::Shape result;
  for (int d = 0; d < shape.dims(); ++d) result.push_back(shape[d]);
  return result;
}

// peft repeats the base's own matrices when a head or an embedding was adapted.
bool repeats_base(const std::string& name) {
  return name.find(".base_layer.") != std::string::npos;
}

// The first few of a list of complaints.
std::string shorten(const std::vector<std::string>& lines) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, lines.size()); ++i) text += "\n  " + lines[i];
  if (lines.size() > kShown) text += str("\n  and ", lines.size() - kShown, " more");
  return text;
}

}  // namespace

adapters::AdapterSpec read_adapter_spec(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kConfigName;
  return adapters::parse_adapter_config(files::read_text(path), path.string());
}

AdapterFolder::AdapterFolder(const std::filesystem::path& folder, const adapters::AdapterSpec& spec,
                             const model::ModelSpec& model)
    : reader_(folder / kWeightsName) {
  std::vector<std::string> wrong;
  std::set<std::string> expected;
  for (const adapters::AdapterTensor& tensor : adapters::tensors(spec, model)) {
    const std::string name = adapters::stored_name(tensor.name);
    expected.insert(name);
    const checkpoints::Shape shape = shape_of(tensor.shape);
    if (!reader_.contains(name)) {
      wrong.push_back("lacks " + name + " " + checkpoints::to_string(shape));
    } else if (reader_.at(name).shape != shape) {
      wrong.push_back(name + " is " + checkpoints::to_string(reader_.at(name).shape) + ", not " +
                      checkpoints::to_string(shape));
    }
  }
  for (const auto& [name, entry] : reader_.tensors())
    if (expected.count(name) == 0 && !repeats_base(name)) wrong.push_back("has also " + name);
  require(wrong.empty(), ErrorKind::data, (folder / kWeightsName).string(),
          " is of another model or another adapter:", shorten(wrong));
}

void AdapterFolder::read(const model::Parameter& parameter, const model::Piece& piece,
                         float* out) const {
  const bool matrix = parameter.shape.dims() == 2;
  reader_.read(adapters::stored_name(parameter.name),
               matrix
                   ? checkpoints::Rectangle{{piece.row, piece.column}, {piece.rows, piece.columns}}
                   : checkpoints::Rectangle{{piece.row}, {piece.rows}},
               out);
}

namespace {

std::vector<float> read_whole(checkpoints::CheckpointReader& reader, const std::string& name) {
  const checkpoints::Shape shape = reader.at(name).shape;
  std::vector<float> values(static_cast<std::size_t>(checkpoints::element_count(shape)));
  reader.read(name, checkpoints::whole(shape), values.data());
  return values;
}

}  // namespace

void write_adapter_folder(checkpoints::CheckpointReader& reader, const std::string& config,
                          const model::ModelSpec& model, const std::filesystem::path& folder) {
  const auto spec = adapters::parse_adapter_config(config, reader.folder().string());
  std::filesystem::create_directories(folder);
  std::vector<checkpoints::SafetensorsPlan> plan;
  std::map<std::string, std::string> ours;
  for (const adapters::AdapterTensor& tensor : adapters::tensors(spec, model)) {
    const std::string name = adapters::stored_name(tensor.name);
    plan.push_back({name, checkpoints::Element::f32, shape_of(tensor.shape)});
    reader.at(tensor.name, plan.back().shape);
    ours[name] = tensor.name;
  }
  checkpoints::write_safetensors(
      folder / kWeightsName, std::move(plan),
      [&](const checkpoints::SafetensorsPlan& entry, checkpoints::SafetensorsSink& sink) {
        sink.put(read_whole(reader, ours.at(entry.name)));
      });
  files::write_text_atomically(folder / kConfigName, config);
}

std::map<std::string, std::function<void(std::vector<float>&)>> merge_changes(
    checkpoints::CheckpointReader& reader, const adapters::AdapterSpec& spec,
    const model::ModelSpec& model) {
  require(adapters::mergeable(spec), ErrorKind::config, reader.folder().string(), ": ",
          adapters::to_string(spec.kind),
          " acts on hidden states and cannot become a part of the weights; export it with "
          "--adapter=peft");
  std::map<std::string, std::function<void(std::vector<float>&)>> changes;
  const auto layout = model::names_of(model.family).layout;
  for (const adapters::Module& module : adapters::linear_modules(model))
    if (adapters::targets(spec, module.name, module.layer))
      changes[module.name + ".weight"] = [&reader, spec, module,
                                          layout](std::vector<float>& weight) {
        const auto read = [&](const std::string& name) { return read_whole(reader, name); };
        adapters::merge(spec, module, layout, read, weight);
      };
  return changes;
}

}  // namespace fathom::train
