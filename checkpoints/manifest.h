#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checkpoints/rectangle.h"
#include "core/dtype.h"

namespace fathom::checkpoints {

/// A box of a tensor and the dataset, of exactly that extent, that holds it.
struct PieceRecord {
  Rectangle box;
  std::string file;
  std::string dataset;
  std::uint64_t xxh64;  ///< of the bytes as they were in memory before they were written
};

struct TensorRecord {
  DType dtype;
  Shape shape;
  std::vector<PieceRecord> pieces;
};

/// What a run tells about itself when it saves.
struct RunInfo {
  std::int64_t step = 0;
  std::string state = "{}";  ///< the caller's JSON: sampler position, seed, schedule, method state
  std::string config;        ///< the configuration, as a recipe that can be run again
  std::string grid;          ///< for people: "tp=1 pp=2 dp=1"
  std::string program;       ///< version and, if known, commit
};

/// The index of a checkpoint: every tensor, where each of its pieces lies, and the run's own state.
struct Manifest {
  RunInfo run;
  std::map<std::string, std::uint64_t> files;   ///< name to size in bytes
  std::map<std::string, TensorRecord> tensors;  ///< by global name
};

/// The name of the manifest inside a checkpoint's folder.
inline constexpr const char* kManifestName = "manifest.json";

/// The manifest as JSON text that carries a checksum of itself. Throws Error(internal) if the run's
/// state is not JSON.
std::string to_text(const Manifest& manifest);

/// Parses and checks everything that can be checked without opening a shard: version, checksum,
/// types, file names, and that every tensor's pieces tile it. `path` is for the messages of the
/// Error(io) that it throws otherwise. Another version of the format is no damage but
/// Error(config).
Manifest parse_manifest(const std::string& text, const std::string& path);

/// Adds one rank's pieces; a tensor may come in from several ranks. Throws Error(internal) naming
/// the tensor if they disagree about its dtype or shape.
void merge_tensors(std::map<std::string, TensorRecord>& into,
                   const std::map<std::string, TensorRecord>& from);

/// Throws Error(kind) naming the first tensor whose pieces do not cover it exactly once.
void require_tiling(const std::map<std::string, TensorRecord>& tensors, ErrorKind kind,
                    const std::string& where);

/// JSON of a tensor table, as it stands in the manifest; used between ranks too. tensors_from_json
/// throws nlohmann::json::exception or Error(io).
nlohmann::json tensors_to_json(const std::map<std::string, TensorRecord>& tensors);
std::map<std::string, TensorRecord> tensors_from_json(const nlohmann::json& table);

/// Sixteen lower-case hexadecimal digits.
std::string hex(std::uint64_t value);
std::uint64_t checksum(const void* data, std::size_t bytes);

}  // namespace fathom::checkpoints
