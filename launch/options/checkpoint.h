#pragma once

#include <optional>
#include <string>

#include "launch/options/command_line.h"

namespace fathom::options {

enum class CheckpointAction { inspect, verify, export_folder };

template <>
inline constexpr std::array enum_words<CheckpointAction> = {
    Word<CheckpointAction>{"inspect", CheckpointAction::inspect},
    Word<CheckpointAction>{"verify", CheckpointAction::verify},
    Word<CheckpointAction>{"export", CheckpointAction::export_folder}};

/// What an export does with the adapter of a checkpoint.
enum class AdapterExport { merged, peft };

template <>
inline constexpr std::array enum_words<AdapterExport> = {
    Word<AdapterExport>{"merged", AdapterExport::merged},
    Word<AdapterExport>{"peft", AdapterExport::peft}};

/// `fathom checkpoint inspect|verify|export`.
struct CheckpointRequest {
  CheckpointAction action = CheckpointAction::inspect;
  std::string checkpoint;  ///< checkpoint folder, or a run folder (its newest checkpoint)
  bool tensors = false;    ///< inspect: list each tensor
  std::string output;      ///< export: Hugging Face folder to write
  AdapterExport adapter = AdapterExport::merged;
  DType dtype = DType::f32;
  double max_shard_gib = 4.0;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command checkpoint_command;

/// Throws Error(usage) or Error(config).
CheckpointRequest parse_checkpoint(const Arguments& arguments);

}  // namespace fathom::options
