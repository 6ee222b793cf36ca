#pragma once

#include <filesystem>
#include <memory>

#include "checkpoints/safetensors.h"
#include "model/weights.h"

namespace fathom::train {

/// The weights of a Hugging Face folder. Names that the folder's files lack are tried without the
/// prefix that some published files leave out.
class HfWeights : public model::WeightSource {
 public:
  /// Throws Error(io) or Error(data) for files that cannot be read, and Error(data) for tensors
  /// that the model of the folder's config.json does not have, with their number and some of their
  /// names: it would run, as another model. Buffers that follow from the config are no such
  /// tensors, nor is the head that a tied model's file repeats.
  explicit HfWeights(const std::filesystem::path& folder);
  void read(const model::Parameter& parameter, const model::Piece& piece,
            float* out) const override;

 private:
  HfWeights(const std::filesystem::path& folder, const model::ModelSpec& spec);
  std::string stored_name(const std::string& name) const;
  checkpoints::SafetensorsReader reader_;
  std::string optional_prefix_;
};

/// The config.json of a folder. Throws Error(io) if it cannot be read.
model::ModelSpec read_model_spec(const std::filesystem::path& folder);

}  // namespace fathom::train
