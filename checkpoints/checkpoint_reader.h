#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "checkpoints/manifest.h"
#include "comm/communicator.h"
#include "core/h5.h"

namespace fathom::checkpoints {

struct OpenOptions {
  /// Take the newest sound checkpoint if the newest of all is damaged, and say so through `warn`.
  /// Without it a damaged checkpoint is an error: training from an older one is the user's
  /// decision.
  bool allow_fallback = false;
  /// Only checkpoints of earlier steps than this.
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  /// Compare the checksum of every piece when it is first read.
  bool verify = false;
  /// Receives one line for each checkpoint passed over; called on every rank.
  std::function<void(const std::string&)> warn = {};
};

/// Reads a committed checkpoint from any number of ranks, whatever grid wrote it: each rank asks
/// for the boxes of its own tensors, and they are put together from the shards.
class CheckpointReader {
 public:
  /// The newest checkpoint of a run, or nothing if it has none. Collective: rank 0 alone looks at
  /// the folder (the others may see an older state of a network file system) and sends the manifest
  /// to all. Damage is one and the same Error(io) on every rank, naming file and reason: a manifest
  /// that does not parse, a shard missing or of another size, or LATEST naming a checkpoint that is
  /// gone. A checkpoint of another version of the format is Error(config) and never passed over.
  static std::optional<CheckpointReader> open_latest(comm::Communicator& world,
                                                     const std::filesystem::path& run_folder,
                                                     const OpenOptions& options = {});

  /// The checkpoint in this very folder (".../step_00001200"). Collective; errors as above.
  static CheckpointReader open(comm::Communicator& world, const std::filesystem::path& folder,
                               const OpenOptions& options = {});

  const Manifest& manifest() const { return manifest_; }
  const std::filesystem::path& folder() const { return folder_; }

  bool contains(const std::string& name) const { return manifest_.tensors.count(name) != 0; }
  /// Throws Error(io) naming checkpoint and tensor if it is missing, or if its dtype or shape is
  /// not the wanted one. A missing tensor is never taken as zeros.
  const TensorRecord& at(const std::string& name) const;
  const TensorRecord& at(const std::string& name, const Shape& shape) const;

  /// Copies a box of a tensor densely into out, in the dtype that is stored. Not collective. Throws
  /// Error(io) if the tensor is missing, its dtype is another, the box is not inside, a shard
  /// cannot be read or holds another type or shape, or (with verify) its content is not what was
  /// saved.
  void read(const std::string& name, const Rectangle& box, DType dtype, void* out);
  /// The same for f32, or bf16 widened to it.
  void read(const std::string& name, const Rectangle& box, float* out);

 private:
  CheckpointReader(std::filesystem::path folder, Manifest manifest, bool verify)
      : folder_(std::move(folder)), manifest_(std::move(manifest)), verify_(verify) {}
  const h5::File& shard(const std::string& file);
  void read_piece(const std::string& name, DType dtype, const PieceRecord& piece,
                  const Rectangle& part, std::byte* out);
  void verify_piece(const std::string& name, DType dtype, const PieceRecord& piece);

  std::filesystem::path folder_;
  Manifest manifest_;
  bool verify_;
  std::map<std::string, h5::File> shards_;
  std::set<std::string> verified_;
};

/// Parses the manifest of a checkpoint's folder and checks that every listed file is there with its
/// size; the contents are not read. Throws Error(io). Not collective: for rank 0 and for tools.
Manifest load_manifest(const std::filesystem::path& folder);

/// Reads a whole piece and compares its checksum; throws Error(io) naming file and tensor.
void check_piece(const h5::File& shard, const std::string& name, DType dtype,
                 const PieceRecord& piece);

}  // namespace fathom::checkpoints
