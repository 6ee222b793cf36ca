#pragma once

#include <filesystem>
#include <functional>
#include <map>

#include "checkpoints/checkpoint_reader.h"
#include "checkpoints/safetensors.h"
#include "methods/adapters/adapter_spec.h"
#include "model/weights.h"

namespace fathom::train {

/// The adapter_config.json of a peft folder. Throws Error(io) if it cannot be read, Error(data)
/// naming the key for what is not supported.
methods::adapters::AdapterSpec read_adapter_spec(const std::filesystem::path& folder);

/// The weights of a peft folder under their names here.
class AdapterFolder : public model::WeightSource {
 public:
  /// Throws Error(data) that lists what the folder lacks, has too much, or has in another shape,
  /// given the resolved spec and the model.
  AdapterFolder(const std::filesystem::path& folder, const methods::adapters::AdapterSpec& spec,
                const model::ModelSpec& model);
  void read(const model::Parameter& parameter, const model::Piece& piece,
            float* out) const override;

 private:
  checkpoints::SafetensorsReader reader_;
};

/// Writes the adapter of a checkpoint as a folder that peft loads (LoRA, DoRA, VeRA) or that we do.
/// `config` is its adapter_config.json.
void write_adapter_folder(checkpoints::CheckpointReader& reader, const std::string& config,
                          const model::ModelSpec& model, const std::filesystem::path& folder);

/// The changes that merge a checkpoint's adapter into an exported model; see ExportOptions. The
/// reader must outlive them. Throws Error(config) for a kind that cannot be merged.
std::map<std::string, std::function<void(std::vector<float>&)>> merge_changes(
    checkpoints::CheckpointReader& reader, const methods::adapters::AdapterSpec& spec,
    const model::ModelSpec& model);

}  // namespace fathom::train
