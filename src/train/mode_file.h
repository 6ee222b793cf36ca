#pragma once

#include <filesystem>
#include <map>
#include <optional>

#include "checkpoints/checkpoint_reader.h"
#include "checkpoints/safetensors.h"
#include "methods/mode/mode_spec.h"
#include "model/spec.h"
#include "model/weights.h"
#include "train/backbone.h"

namespace fathom::train {

/// Writes what late layers vote with beside an exported model or adapter, for no other program
/// knows it: mode.json (how many layers, how they are weighed, and the backbone) and
/// mode.safetensors with norm.<i>.weight|bias of the late layers, counted from 1, the last one's
/// being the model's final norm, and router.weight [k, hidden], router.bias [k]. Without them the
/// exported model is the last layer alone. `backbone` has the weights that they will stand on: the
/// exported ones, or the adapter's base. Throws Error(io) if the checkpoint lacks one of them.
void write_mode_file(checkpoints::CheckpointReader& reader, const std::string& mode,
                     const model::ModelSpec& model, const model::WeightSource& backbone,
                     const std::filesystem::path& folder);

/// How the late layers of a folder vote: its mode.json; nothing if it has none. Throws Error(io)
/// for a file that cannot be read as such.
std::optional<methods::mode::ModeSpec> read_mode_spec(const std::filesystem::path& folder);

/// The folder whose late layers vote when `adapter` (may be empty) is put on `model`: the adapter's
/// if it has a mode.json, for its votes were trained with it, else the model's; empty without one.
std::filesystem::path voting_folder(const std::filesystem::path& model,
                                    const std::filesystem::path& adapter);

/// What the late layers of a folder vote with, the model's final norm among it.
class ModeFolder : public model::WeightSource {
 public:
  /// Throws Error(data) that lists what mode.safetensors lacks, has too much, or has in another
  /// shape, given the folder's spec and the model.
  ModeFolder(const std::filesystem::path& folder, const methods::mode::ModeSpec& spec,
             const model::ModelSpec& model);

  /// Throws Error(data) unless the weights are those of the backbone that mode.json names.
  void check_backbone(const model::ModelSpec& model, const model::WeightSource& weights) const;
  /// False for files from before backbones were named.
  bool names_backbone() const { return backbone_.has_value(); }

  bool has(const std::string& parameter) const { return stored_.count(parameter) > 0; }
  void read(const model::Parameter& parameter, const model::Piece& piece,
            float* out) const override;

 private:
  std::filesystem::path folder_;
  checkpoints::SafetensorsReader reader_;
  std::optional<Backbone> backbone_;
  std::map<std::string, std::string> stored_;  // names in the file by those here
};

}  // namespace fathom::train
