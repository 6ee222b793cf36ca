#pragma once

#include <filesystem>

#include "launch/options/shared.h"
#include "train/engine.h"

namespace fathom::launch {

/// A model to run, from a Hugging Face folder or from a checkpoint: its spec and place on a grid,
/// known before memory is taken.
struct SourcePlan {
  options::ModelSource source;
  train::TrainConfig config;  ///< grid and dtypes of an engine that only runs forward
  train::EnginePlan plan;
  std::filesystem::path checkpoint;  ///< the checkpoint's folder; empty for a Hugging Face folder
  std::filesystem::path tokenizer;   ///< folder with the model's tokenizer
  std::optional<bool> loss_on_prompt = {};  ///< of a checkpoint's run, if it says
};

/// Reads the model's config. Throws Error(usage), Error(io), Error(data) or, for a grid that the
/// model does not allow, Error(config).
SourcePlan open_source(const options::ModelSource& source, const options::Ranks& ranks);

/// The folder itself if it is a checkpoint, else the newest checkpoint of the run in it. Throws
/// Error(io) if there is none.
std::filesystem::path find_checkpoint(const std::string& name);

/// Sets the weights of an engine made from source.plan; collective.
void load_source(train::Engine& engine, const SourcePlan& source);

}  // namespace fathom::launch
