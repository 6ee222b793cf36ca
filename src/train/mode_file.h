#pragma once

#include <filesystem>

#include "checkpoints/checkpoint_reader.h"
#include "methods/mode/mode_spec.h"
#include "model/spec.h"

namespace fathom::train {

/// Writes what late layers vote with beside an exported model or adapter, for no other program
/// knows it: mode.json (how many layers, how they are weighed) and mode.safetensors with
/// norm.<i>.weight|bias of the late layers, counted from 1, the last one's being the model's final
/// norm, and router.weight [k, hidden], router.bias [k]. Without them the exported model is the
/// last layer alone. Throws Error(io) if the checkpoint lacks one of them.
void write_mode_file(checkpoints::CheckpointReader& reader, const std::string& mode,
                     const model::ModelSpec& model, const std::filesystem::path& folder);

}  // namespace fathom::train
