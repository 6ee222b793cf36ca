#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/manifest.h"
#include "checkpoints/run_folder.h"

namespace fathom::checkpoints {

/// A box of a tensor in this rank's memory, dense and row-major.
struct LocalPiece {
  Rectangle box;
  const void* data;
};

/// The part of a tensor that this rank alone saves. What several ranks hold alike (replicas, shared
/// parameters) is given by one of them. An optimizer's moment is a tensor of its own, named after
/// its parameter: "<param>#exp_avg".
struct LocalTensor {
  std::string name;
  DType dtype;
  Shape shape;  ///< of the whole tensor
  std::vector<LocalPiece> pieces;
};

/// What one rank saves. `memory` keeps alive whatever the pieces point into, until the save ends.
struct Snapshot {
  std::vector<LocalTensor> tensors;
  std::shared_ptr<const void> memory;
};

/// What a rank wrote: the file, or nothing if it had no tensors.
struct ShardReport {
  std::map<std::string, std::uint64_t> files;
  std::map<std::string, TensorRecord> tensors;
};

/// "rank_00003.h5"
std::string shard_name(int rank);

/// Writes this rank's file and forces it to the disk. Checksums are computed from the buffers,
/// before they are written. Writes in slices, so that other users of HDF5 in this process get their
/// turn. Throws Error(io).
ShardReport write_shard(const std::filesystem::path& folder, int rank, const Snapshot& snapshot,
                        const SaveObserver& observer = {});

}  // namespace fathom::checkpoints
