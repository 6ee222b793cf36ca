#pragma once

#include <filesystem>
#include <string>

#include "model/spec.h"
#include "train/config.h"
#include "train/run_state.h"

// A run that goes on does so with the models that it began with: a checkpoint says which.

namespace fathom::train {

/// Sixteen hexadecimal digits that tell the model of a Hugging Face folder from others: of what it
/// computes, and of every tensor's name, type, shape and first values (4 KiB; a model that was
/// trained further differs in most of them). The number and the names of its files do not matter.
/// Throws Error(io) or Error(data) as SafetensorsReader does.
std::string model_fingerprint(const std::filesystem::path& folder);

/// Throws Error(config) that lists in what the student `now` differs from the one of a checkpoint,
/// which `origin` names.
void require_same_student(const RunState& saved, const model::ModelSpec& now,
                          const std::string& origin);

/// Throws Error(config) if the run's teacher, of the fingerprint `now`, is not the checkpoint's;
/// with run.accept_changes it is told in the log. Nothing is asked of a run without a teacher, nor
/// of a checkpoint that knows of none.
void require_same_teacher(const RunState& saved, const std::string& now, const TrainConfig& config,
                          const std::string& origin);

}  // namespace fathom::train
