#include "train/mode_file.h"

#include <map>

#include "checkpoints/safetensors.h"
#include "core/files.h"
#include "core/parameter_names.h"
#include "model/family.h"

namespace fathom::train {
namespace {

// Names in the file and in the checkpoint.
std::map<std::string, std::string> names_of(const methods::mode::ModeSpec& spec,
                                            const model::ModelSpec& model) {
  std::map<std::string, std::string> names;
  const std::string own = str(kMethodPrefix, "mode.");
  const bool biased = model.norm == kernels::NormKind::layer;
  const auto norm = [&](std::int64_t layer, const std::string& source) {
    const std::string name = str("norm.", layer);
    names[name + ".weight"] = source + ".weight";
    if (biased) names[name + ".bias"] = source + ".bias";
  };
  if (spec.norms == methods::mode::Norms::own)
    for (std::int64_t layer = model.layers - spec.k + 1; layer < model.layers; ++layer)
      norm(layer, str(own, "norm.", layer));
  norm(model.layers, model::names_of(model.family).final_norm);
  if (spec.routed())
    for (const char* part : {"router.weight", "router.bias"}) names[part] = own + part;
  return names;
}

}  // namespace

void write_mode_file(checkpoints::CheckpointReader& reader, const std::string& mode,
                     const model::ModelSpec& model, const std::filesystem::path& folder) {
  const auto spec = methods::mode::parse_mode(mode, reader.folder().string());
  const auto names = names_of(spec, model);
  std::filesystem::create_directories(folder);
  std::vector<checkpoints::SafetensorsPlan> plan;
  for (const auto& [name, source] : names)
    plan.push_back({name, checkpoints::Element::f32, reader.at(source).shape});
  checkpoints::write_safetensors(
      folder / "mode.safetensors", std::move(plan),
      [&](const checkpoints::SafetensorsPlan& entry, checkpoints::SafetensorsSink& sink) {
        std::vector<float> values(
            static_cast<std::size_t>(checkpoints::element_count(entry.shape)));
        reader.read(names.at(entry.name), checkpoints::whole(entry.shape), values.data());
        sink.put(values);
      });
  files::write_text_atomically(folder / "mode.json", mode);
}

}  // namespace fathom::train
