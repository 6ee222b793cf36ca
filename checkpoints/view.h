#pragma once

#include <filesystem>

#include "checkpoints/manifest.h"

namespace fathom::checkpoints {

/// Writes view.h5 into a checkpoint's folder: every tensor whole, as a virtual dataset over the
/// shards, for h5py, h5dump and people. No program may rely on it: HDF5 shows a missing shard as
/// zeros. Throws Error(io).
void write_view(const std::filesystem::path& folder, const Manifest& manifest);

}  // namespace fathom::checkpoints
