#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_reader.h"
#include "checkpoints/shard.h"

namespace fathom::train {

/// What a method knows between two steps besides parameters, the same on every rank. A checkpoint
/// keeps the values in its manifest and each array as an i32 tensor "method.state.<name>", both
/// under the checksums that it has anyway; exports leave them out.
struct MethodState {
  std::string values = "{}";  ///< a JSON object
  std::map<std::string, std::vector<std::int32_t>> arrays = {};

  bool operator==(const MethodState&) const = default;
};

/// Whether a checkpoint's tensor of this name is such an array.
bool is_method_state(const std::string& name);

/// Adds the arrays to what a rank saves. For one rank of a job only.
void append(const MethodState& state, checkpoints::Snapshot& snapshot);

/// The arrays of a checkpoint with the values of its run state. Not collective. Throws Error(io)
/// for an array that cannot be read or is not what was saved.
MethodState read_method_state(checkpoints::CheckpointReader& reader, const std::string& values);

}  // namespace fathom::train
